import type { Answered } from '../client/operations.ts';
import { nameWithVariant } from '../../shared/domain/matrix.ts';
import type { Call } from './call.ts';
import { choose } from './project.ts';
import type { Screen } from './screen.ts';
import { ago, painted } from './states.ts';
import { clean, words } from './text.ts';

/** Like the program of this name: 1 if no line matches. */
const noneFound = 1;

export async function run(call: Call<{ suite?: string; limit?: string }>, expression: string): Promise<number> {
  const { client, screen } = call;
  const { suite, limit = '100' } = call.options;
  const project = await call.project();
  const inProject = { project_id: project.id_str };
  const chosen =
    suite === undefined ? undefined : choose(project, 'suite', await client.call('suites', inProject), suite);
  const query = { expression, limit, ...(chosen && { suite_id: chosen.id_str }) };
  const found = await client.call('searchLogs', inProject, query);
  const { total, complete, unsearched, builds } = found;
  if (screen.isJson) screen.json(found);
  if (builds.length > 0) showTable(screen, builds);
  if (total === 0) screen.print(words`No log of ${project.name} has a line that matches ${expression}.`);
  if (total > builds.length) screen.hint(`${total} builds have such a line. The newest ${builds.length} are listed.`);
  if (!complete) {
    const { last = null, builds: unreadable = [] } = unsearched ?? {};
    if (last !== null) screen.hint(words`The time was over: logs of ${last} and older were not searched.`);
    if (unreadable.length > 0)
      screen.hint(words`Not readable: the logs of ${unreadable.map((one) => one.build_id_str).join(', ')}`);
  }
  return total === 0 ? noneFound : 0;
}

function showTable(screen: Screen, builds: Answered<'searchLogs'>['builds']): void {
  screen.table(
    [
      { title: 'SUITE', gives: 2 },
      { title: 'STATE' },
      { title: 'MADE', gives: 1 },
      { title: 'BUILD' },
      { title: 'LINE', isNumber: true },
      { title: 'TEXT', gives: 3 },
    ],
    builds.map((build) => [
      nameWithVariant(build.suite_name, build.variant),
      painted(build.build_state),
      ago(build.created_at),
      build.build_id_str,
      String(build.number),
      clean(build.text),
    ]),
  );
}
