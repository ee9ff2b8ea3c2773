import type { Build, Project } from '../client/operations.ts';
import type { Call } from './call.ts';
import { WrongUse } from './errors.ts';
import { currentRef } from './git.ts';
import { copyLog } from './log-output.ts';
import { findBuild } from './named-build.ts';
import { requestsOf } from './project.ts';
import { hasFailed } from './states.ts';
import { words } from './text.ts';

export async function run(call: Call, named?: string): Promise<void> {
  const { client, screen } = call;
  const project = await call.project();
  const build = named === undefined ? await newestFailed(call, project) : await findBuild(call, project, named);
  const params = { project_id: project.id_str, build_id: build.id_str };
  if (screen.isJson) return screen.json(await client.call('brief', params));
  screen.print(words`Build ${build.id_str} of ${build.suite_name}: ${build.build_state}`);
  await copyLog(await client.bytes('brief', params, { headers: { accept: 'text/plain' } }), screen, true);
}

/** The newest build of the folder's branch that did not pass. */
async function newestFailed(
  call: Call,
  project: Project,
): Promise<Pick<Build, 'id_str' | 'suite_name' | 'build_state'>> {
  const ref = await currentRef(call.cwd);
  for await (const request of requestsOf(call, project, ref)) {
    if (request.build_state === 'passed') continue;
    const params = { project_id: project.id_str, build_request_id: request.id_str };
    const builds = await call.client.call('buildsOfRequest', params, { limit: '1000' });
    const failed = builds.find(({ build_state: state }) => hasFailed(state));
    if (failed) return failed;
  }
  throw new WrongUse(words`No build of ${ref ?? project.name} failed. Name one: headrace why BUILD`);
}
