import { setTimeout as pause } from 'node:timers/promises';
import type { BuildRequest, Project } from '../client/operations.ts';
import type { Call } from './call.ts';
import { WrongUse } from './errors.ts';
import { followRequest, onInterrupt } from './follow.ts';
import { currentRef } from './git.ts';
import { choose, oneNamed } from './project.ts';
import { exitStatus, resultOf } from './states.ts';
import { words } from './text.ts';

const longestFetchMs = 60_000;
const betweenLooksMs = 500;

export async function run(
  call: Call<{ follow?: true; suite?: string[]; variable?: string[]; set?: string[]; reuse: boolean }>,
  named?: string,
): Promise<number | void> {
  const { client, screen, cwd } = call;
  const ref = named ?? (await currentRef(cwd));
  if (ref === undefined)
    throw new WrongUse('This folder is not a git repository. Name a ref to build: headrace run REF');
  const project = await call.project();
  const inProject = { project_id: project.id_str };
  const { suite: wanted = [], variable: given = [], set: answers = [], follow, reuse } = call.options;
  const variables = { ...variablesFrom(given), ...answersFrom(answers, project) };
  const suites = wanted.length === 0 ? [] : await client.call('suites', inProject);
  const isFileBuilt = project.config_file !== '';
  const own = wanted.filter((one) => !isFileBuilt || oneNamed(suites, one) !== undefined);
  const ids = own.map((one) => choose(project, 'suite', suites, one).id_str);
  // The branch's file may have suites that the project does not have.
  const names = wanted.filter((one) => !own.includes(one));
  const asked = { commit_ref: ref, 'suites[]': ids, 'suite_names[]': names, ...variables, ...(!reuse && { reuse }) };
  const request = await client.call('ask', inProject, asked);
  // Only the commit's file shows whether the suites exist, so this waits for the fetch.
  const asksFor = isFileBuilt ? wanted.map((one) => oneNamed(suites, one)?.name ?? one) : [];
  if (follow) {
    const status = await followRequest(call, project, request);
    if (status === exitStatus.passed) await refuseMissing(call, project, request, asksFor);
    return status;
  }
  const fetched = asksFor.length === 0 ? undefined : await whenFetched(call, project, request);
  if (fetched && fetched.build_state !== 'errored') await refuseMissing(call, project, request, asksFor);
  if (screen.isJson) screen.json(fetched ?? request);
  else
    screen.print(
      words`Requested a build of ${ref} in ${project.name}. Follow it with: headrace watch ${request.id_str}`,
    );
  return fetched?.build_state === 'errored' ? exitStatus.errored : undefined;
}

/** Undefined if the fetch takes too long, for example without a runner. */
async function whenFetched(call: Call, project: Project, { id_str: id }: BuildRequest) {
  const { client, screen } = call;
  using _ = onInterrupt(() => screen.hint(`The build continues. Follow it with: headrace watch ${id}`));
  const until = Date.now() + longestFetchMs;
  do {
    const request = await client.call('request', { project_id: project.id_str, build_request_id: id });
    if (request.commit_id_str !== '' || resultOf(request.build_state) !== undefined) return request;
    await pause(betweenLooksMs);
  } while (Date.now() < until);
  screen.hint('The commit is not fetched yet, so its suites are unknown.');
  return undefined;
}

/** A request may name suites that the commit's file lacks. These are not built. */
async function refuseMissing({ client }: Call, project: Project, request: BuildRequest, named: readonly string[]) {
  if (named.length === 0) return;
  const params = { project_id: project.id_str, build_request_id: request.id_str };
  const known = new Set((await client.call('explain', params)).map(({ name }) => name));
  const missing = named.filter((one) => !known.has(one));
  if (missing.length === 0) return;
  throw new WrongUse(
    words`${request.commit_ref} has no suite ${missing.join(', ')}. It has: ${[...known].join(', ') || 'none'}`,
  );
}

/** A parameter with another name would be ignored, so a mistyped one is refused. */
function answersFrom(
  given: readonly string[],
  { name, parameters = [] }: Pick<Project, 'name'> & Partial<Pick<Project, 'parameters'>>,
) {
  const answers = variablesFrom(given);
  const known = new Set(parameters.map((one) => `variables[${one.name}]`));
  const unknown = Object.keys(answers).find((one) => !known.has(one));
  if (unknown === undefined) return answers;
  const asked = parameters.map((one) => one.name).join(', ') || 'none';
  throw new WrongUse(
    words`${name} has no parameter ${unknown.slice('variables['.length, -1)}. It has: ${asked}. Set other variables with --variable`,
  );
}

function variablesFrom(given: readonly string[]): Record<string, string> {
  const fields = given.map((one) => {
    const [name = '', value] = one.split(/=(.*)/s, 2);
    if (name === '' || value === undefined) throw new WrongUse(words`Write a variable as NAME=value, not as ${one}`);
    return [`variables[${name}]`, value] as const;
  });
  return Object.fromEntries(fields);
}
