import type { Call } from './call.ts';
import { WrongUse } from './errors.ts';
import { followRequest } from './follow.ts';
import { currentRef } from './git.ts';
import { choose } from './project.ts';
import { words } from './text.ts';

export async function run(
  call: Call<{ follow?: true; suite?: string[]; variable?: string[] }>,
  named?: string,
): Promise<number | void> {
  const { client, screen, cwd } = call;
  const ref = named ?? (await currentRef(cwd));
  if (ref === undefined) throw new WrongUse('This folder is no git repository. Say what to build: headrace run REF');
  const project = await call.project();
  const inProject = { project_id: project.id_str };
  const { suite: wanted = [], variable: given = [], follow } = call.options;
  const variables = variablesFrom(given);
  const suites = wanted.length === 0 ? [] : await client.call('suites', inProject);
  const ids = wanted.map((one) => choose(project, 'suite', suites, one).id_str);
  const request = await client.call('ask', inProject, { commit_ref: ref, 'suites[]': ids, ...variables });
  if (follow) return followRequest(call, project, request);
  if (screen.isJson) return screen.json(request);
  screen.print(words`Asked for ${ref} in ${project.name}. Follow it with: headrace watch ${request.id_str}`);
}

/** `NAME=value` of each flag, as the fields of the request. */
function variablesFrom(given: readonly string[]): Record<string, string> {
  const fields = given.map((one) => {
    const [name = '', value] = one.split(/=(.*)/s, 2);
    if (name === '' || value === undefined) throw new WrongUse(words`Write a variable as NAME=value, not as ${one}`);
    return [`variables[${name}]`, value] as const;
  });
  return Object.fromEntries(fields);
}
