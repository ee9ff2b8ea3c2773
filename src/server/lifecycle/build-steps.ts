import type { StoredStep } from '../views/build-steps.ts';
import { projectTopic, type WriteContext } from './write-context.ts';

export function waitingSteps(steps: string): string {
  if (steps === '[]') return '';
  const named = (JSON.parse(steps) as StoredStep[]).map(({ name }): StoredStep => ({ name, state: 'waiting' }));
  return JSON.stringify(named);
}

/** A runner always sends all steps, so a lost report does no harm. */
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
