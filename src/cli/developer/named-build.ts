import type { Build, Project } from '../client/operations.ts';
import { nameWithVariant } from '../../shared/domain/matrix.ts';
import type { Call } from './call.ts';
import { WrongUse } from './errors.ts';
import { findRequest, ifThere } from './project.ts';
import { words } from './text.ts';

/** By identifier, or by suite with or without variant, as in `status`: the newest build of the folder's branch. */
export async function findBuild(call: Call, project: Project, named: string): Promise<Build> {
  const { client } = call;
  const inProject = { project_id: project.id_str };
  if (/^\d+$/.test(named)) {
    const found = await ifThere(client.call('build', { ...inProject, build_id: named }));
    if (found) return found;
  }
  const request = await findRequest(call, project);
  const builds =
    request.commit_id_str === ''
      ? []
      : await client.call('buildsOfCommit', { ...inProject, commit_id: request.commit_id_str }, { limit: '1000' });
  const build =
    builds.find((one) => one.suite_name === named) ??
    builds.find((one) => nameWithVariant(one.suite_name, one.variant) === named);
  if (build) return build;
  const suites = await client.call('suites', inProject);
  if (!suites.some(({ name }) => name === named || named.startsWith(`${name} (`)))
    throw new WrongUse(words`${project.name} has no build and no suite ${named}. See: headrace builds`);
  throw new WrongUse(words`${named} was not built on ${request.commit_ref}. See: headrace status`);
}
