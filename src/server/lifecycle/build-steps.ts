import type { StoredStep } from '../views/build-steps.ts';
import { projectTopic, type WriteContext } from './write-context.ts';

/** The steps of a suite, before its build has begun; blank for a suite with a command. */
export function waitingSteps(steps: string): string {
  if (steps === '[]') return '';
  const named = (JSON.parse(steps) as StoredStep[]).map(({ name }): StoredStep => ({ name, state: 'waiting' }));
  return JSON.stringify(named);
}

/**
 * Records the states of the steps of a running build. A runner always sends all of them, so a lost report does no harm.
 */
export async function noteSteps({ db, trx }: WriteContext, id: bigint, steps: readonly StoredStep[]): Promise<void> {
  const build = await trx
    .updateTable('builds')
    .set({ steps: JSON.stringify(steps) })
    .where('id', '=', id)
    .where('build_state', '=', 'running')
    .returning('project_id')
    .executeTakeFirst();
  if (build) await db.announce(trx, projectTopic(build.project_id));
}
