import type { BuildRow } from '../db/schema.ts';
import type { StoredStep } from '../views/build-steps.ts';
import { projectTopic, type WriteContext } from './write-context.ts';

export function waitingSteps(steps: string): string {
  if (steps === '[]') return '';
  const named = (JSON.parse(steps) as StoredStep[]).map(({ name }): StoredStep => ({ name, state: 'waiting' }));
  return JSON.stringify(named);
}

/** The names of a build's steps. A suite with a command has one. */
export function stepNames({ steps }: Pick<BuildRow, 'steps'>): string[] {
  return steps === '' ? ['command'] : (JSON.parse(steps) as StoredStep[]).map(({ name }) => name);
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

const longestCommand = 200;

/** Pages show the first line of each command. The suite may change later. */
export async function noteCommands(
  { trx }: WriteContext,
  id: bigint,
  steps: readonly { command: string }[],
): Promise<void> {
  const commands = steps.map(({ command }) => {
    const [line = ''] = command.trimStart().split('\n', 1);
    return line.slice(0, longestCommand).toWellFormed();
  });
  await trx
    .updateTable('builds')
    .set({ step_commands: JSON.stringify(commands) })
    .where('id', '=', id)
    .execute();
}
