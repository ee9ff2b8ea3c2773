import type { BuildRequest, Commit } from '../client/operations.ts';
import { nameWithVariant } from '../../shared/domain/matrix.ts';
import type { Call } from './call.ts';
import { findRequest } from './project.ts';
import { ago, failedStep, painted, tookFrom } from './states.ts';
import type { Screen } from './screen.ts';

export async function run(call: Call, named?: string): Promise<void> {
  const { client, screen } = call;
  const project = await call.project();
  const inProject = { project_id: project.id_str };
  // One after the other on the open connection: opening another one takes longer than these responses.
  const request = await findRequest(call, project, named);
  const inCommit = { ...inProject, commit_id: request.commit_id_str };
  const isKnown = request.commit_id_str !== '';
  const commit = isKnown ? await client.call('commit', inCommit) : undefined;
  const builds = isKnown ? await client.call('buildsOfCommit', inCommit, { limit: '1000', counted: true }) : [];
  const newest = builds
    .toReversed()
    .map((build) => ({ ...build, suite: nameWithVariant(build.suite_name, build.variant) }));
  if (screen.isJson) return screen.json({ project, request, commit: commit ?? null, builds: newest });
  head(screen, project.name, request, commit);
  if (newest.length === 0) return;
  screen.print('');
  screen.table(
    [
      { title: 'SUITE', gives: 1 },
      { title: 'STATE' },
      { title: 'TIME', isNumber: true, gives: 3 },
      { title: 'WHY', gives: 4 },
      { title: 'BUILD', gives: 2 },
    ],
    newest.map((build) => [
      build.suite,
      painted(build.build_state),
      tookFrom(build.started_at, build.finished_at),
      [build.failure_reason, failedStep(build), build.waiting_reason].filter((part) => part !== '').join(' '),
      build.id_str,
    ]),
  );
}

function head(screen: Screen, project: string, request: BuildRequest, commit: Commit | undefined): void {
  screen.facts([
    ['project', project],
    ['request', `${request.id_str} of ${request.commit_ref}, ${ago(request.created_at)}, by ${request.created_by}`],
    ...(commit ? [['commit', `${commit.ref.slice(0, 12)} ${commit.message.split('\n', 1)[0] ?? ''}`] as const] : []),
    ['state', painted(request.build_state)],
    ...(request.waiting_reason === '' ? [] : [['waits', request.waiting_reason] as const]),
  ]);
}
