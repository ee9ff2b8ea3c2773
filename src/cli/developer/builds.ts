import { nameWithVariant } from '../../shared/domain/matrix.ts';
import type { Call } from './call.ts';
import { ago, painted, tookFrom } from './states.ts';

export async function run(call: Call<{ limit?: string }>): Promise<void> {
  const { client, screen } = call;
  const { limit = '20' } = call.options;
  const project = await call.project();
  const inProject = { project_id: project.id_str };
  const builds = await client.call('builds', inProject, { limit });
  const named = builds.map((build) => ({ ...build, suite: nameWithVariant(build.suite_name, build.variant) }));
  if (screen.isJson) return screen.json(named);
  if (named.length === 0) return screen.print('Nothing was built yet. Start with: headrace run');
  screen.table(
    [
      { title: 'SUITE', gives: 1 },
      { title: 'STATE' },
      { title: 'TIME', isNumber: true, gives: 4 },
      { title: 'MADE', gives: 3 },
      { title: 'BUILD', gives: 2 },
    ],
    named.map((build) => [
      build.suite,
      painted(build.build_state),
      tookFrom(build.started_at, build.finished_at),
      ago(build.created_at),
      build.id_str,
    ]),
  );
}
