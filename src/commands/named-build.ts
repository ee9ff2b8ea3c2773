import type { Build, Project } from '../client/operations.ts';
import type { Call } from './call.ts';
import { WrongUse } from './errors.ts';
import { findRequest, ifThere } from './project.ts';
import { namer } from './suite-names.ts';
import { words } from './text.ts';

/** A build by its identifier, or by its suite, also with the variant, as status shows it: the newest of the folder's branch. */
export async function findBuild(call: Call, project: Project, named: string): Promise<Build> {
  const { client } = call;
  const inProject = { project_id: project.id_str };
  if (/^\d+$/.test(named)) {
    const found = await ifThere(client.call('build', { ...inProject, build_id: named }));
    if (found) return found;
  }
  const suites = await client.call('suites', inProject);
  const suite = suites.find(({ name }) => name === named);
  if (!suite && !suites.some(({ name }) => named.startsWith(`${name} (`)))
    throw new WrongUse(words`${project.name} has no build and no suite ${named}. See: headrace builds`);
  const request = await findRequest(call, project);
  const builds =
    request.commit_id_str === ''
      ? []
      : await client.call('buildsOfCommit', { ...inProject, commit_id: request.commit_id_str }, { limit: '1000' });
  const nameOf = namer(suites);
  const build = builds.find((one) => (suite ? one.suite_id_str === suite.id_str : nameOf(one) === named));
  if (!build) throw new WrongUse(words`${named} was not built on ${request.commit_ref}. See: headrace status`);
  return build;
}
