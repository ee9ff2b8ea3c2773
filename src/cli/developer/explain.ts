import type { BuildRequest, Project } from '../client/operations.ts';
import type { Call } from './call.ts';
import { findRequest } from './project.ts';
import { clean, words } from './text.ts';

export async function run(call: Call, named?: string): Promise<void> {
  const { client, screen } = call;
  const project = await call.project();
  const request = await findRequest(call, project, named);
  const { id_str: id } = request;
  const suites = await client.call('explain', { project_id: project.id_str, build_request_id: id });
  if (screen.isJson) return screen.json(suites);
  if (suites.length === 0) return screen.print(whyNone(project, request));
  for (const { name, runs, why } of suites) {
    screen.print(
      screen.paint(`${runs ? '✓' : '-'} ${clean(name)} ${runs ? 'runs' : 'does not run'}`, runs ? 'green' : 'dim'),
    );
    screen.print(`    ${clean(why)}`);
  }
}

function whyNone({ config_file: path }: Project, request: BuildRequest): string {
  const { id_str: id, failure_reason: reason, commit_id_str: commit } = request;
  if (reason === 'configuration_invalid')
    return words`${path} of the commit has a mistake, so nothing was built. To see it: headrace watch ${id}`;
  return commit === ''
    ? 'The commit was not fetched, so no suite could be chosen.'
    : 'The commit and the project have no suites.';
}
