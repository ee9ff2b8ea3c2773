import { projectRoute } from '../api/route.ts';
import { includes } from '../auth/roles.ts';
import type { BuildInput } from '../../shared/domain/build-inputs.ts';
import { inputsRecord } from '../../shared/records/build.ts';
import { described, identifier } from '../../shared/records/fields.ts';
import type { BuildRow } from '../db/schema.ts';
import type { Role } from '../http/route.ts';
import { differencesOf, digestOfInputs, inputsOfBuild } from '../lifecycle/build-inputs.ts';
import { findBuild } from './builds.ts';

export const routes = [
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id/builds/:build_id/inputs',
    access: 'viewer',
    scope: 'commits',
    summary: 'List what a build stood on, such as its files, commands, images and variables, as digests',
    query: { compare: described(identifier(), 'the ID of another build of the project, to list the differences') },
    answer: inputsRecord,
    async handle({ db, project, params, query }) {
      const build = await findBuild(db, project.id, params.build_id);
      const other = query.compare === undefined ? undefined : await findBuild(db, project.id, query.compare);
      const seen = async (one: BuildRow): Promise<BuildInput[] | undefined> =>
        (await inputsOfBuild(db, one.id))?.filter((input) => isShown(input, one, project.role));
      const own = await seen(build);
      const before = other && (await seen(other));
      return {
        digest: own ? digestOfInputs(own) : null,
        inputs: own ?? [],
        ...(other && { differences: differencesOf(before ?? [], own ?? []) }),
      };
    },
  }),
];

/**
 * Users who may set a variable of the same name could compare its digest with that of their guess. So nobody sees the
 * digest of a variable that the build may have and they may not.
 */
export function isShown({ kind, name }: BuildInput, { limited }: BuildRow, role: Role): boolean {
  if (kind === 'packages') return role !== 'public'; // folders of the operator's machine
  if (kind !== 'variable' || includes(role, 'maintainer')) return true;
  return includes(role, 'developer') && !(JSON.parse(limited) as string[]).includes(name);
}
