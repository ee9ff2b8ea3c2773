import type { Client } from '../client/client.ts';
import type { Project } from '../client/operations.ts';
import type { Call } from './command.ts';
import { WrongUse } from './errors.ts';
import { followRequest } from './follow.ts';
import { currentRef } from './git.ts';
import { words } from './text.ts';

export async function run(call: Call): Promise<number | void> {
  const { client, screen, args, cwd } = call;
  const ref = args[0] ?? (await currentRef(cwd));
  if (ref === undefined) throw new WrongUse('This folder is no git repository. Say what to build: headrace run REF');
  const project = await call.project();
  const suites = await suitesNamed(client, project, call.values('suite'));
  const fields = { commit_ref: ref, ...(suites.length === 0 ? {} : { 'suites[]': suites }) };
  const request = await client.call('ask', { project_id: project.id_str }, fields);
  if (call.has('follow')) return followRequest(call, project, request);
  if (screen.isJson) return screen.json(request);
  screen.say(words`Asked for ${ref} in ${project.name}. Follow it with: headrace watch ${request.id_str}`);
}

/** Suites by name or identifier. */
async function suitesNamed(client: Client, project: Project, wanted: readonly string[]): Promise<string[]> {
  if (wanted.length === 0) return [];
  const suites = await client.call('suites', { project_id: project.id_str });
  return wanted.map((named) => {
    const found = suites.find(({ name }) => name === named) ?? suites.find(({ id_str: id }) => id === named);
    if (found) return found.id_str;
    const names = suites.map(({ name }) => name).join(', ');
    throw new WrongUse(words`${project.name} has no suite ${named}. It has: ${names}`);
  });
}
