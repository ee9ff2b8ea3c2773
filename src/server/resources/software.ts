import { accountRoute, projectRoute } from '../api/route.ts';
import { admitToOwner } from '../auth/organisations.ts';
import { admitToProject } from '../auth/projects.ts';
import type { Caller } from '../auth/callers.ts';
import type { Queries } from '../db/open.ts';
import { ApiError } from '../../shared/errors.ts';
import { described, identifier, text } from '../../shared/records/fields.ts';
import { servicesIn } from '../lifecycle/build-services.ts';
import { attachedStacks, combined, launchesOf, ownDependencyNow, type Stack } from '../software/software.ts';
import { softwareRecord, type Software } from '../../shared/records/suite.ts';
import { string } from '../../shared/records/schema.ts';
import { fileOf } from './artifacts.ts';
import { orNotFound, withIdString } from './common.ts';
import { isSharedByOther } from './dependency-views.ts';
import { suites } from './suites.ts';

interface Wanted {
  db: Queries;
  caller: Caller;
  params: { dependency_id: bigint };
  query: { suite_id: bigint | undefined; digest: string };
}

/** The stacks of the services without an image. */
async function stacksOfServices(
  db: Queries,
  { services }: { services: string },
  ownerId: bigint,
): Promise<{ name: string; stack: Stack }[]> {
  const found: { name: string; stack: Stack }[] = [];
  for (const { name, dependency_id: id } of servicesIn(services)) {
    const stack = id === '' ? undefined : await ownDependencyNow(db, ownerId, BigInt(id));
    if (stack) found.push({ name, stack });
  }
  return found;
}

function mounted(stacks: readonly Stack[]): Pick<Software, 'layers' | 'prefixes'> {
  const { layers, prefixes } = combined(stacks);
  return {
    layers: layers.flatMap(({ id, name, prefix, digest }) =>
      digest === null ? [] : [{ ...withIdString('dependency_id', id), name, prefix, digest }],
    ),
    prefixes,
  };
}

/** The digest of the result in a suite that the caller may see. It may be older, and from another account. */
async function ofSuite({ db, caller, params, query }: Wanted): Promise<string | null> {
  if (query.suite_id === undefined) return null;
  const named = db.selectFrom('suites').select(['id', 'project_id', 'services']).where('id', '=', query.suite_id);
  const suite = orNotFound(await named.executeTakeFirst());
  const { owner_id: owner } = await admitToProject(db, caller, suite.project_id, { access: 'viewer' });
  const ofServices = await stacksOfServices(db, suite, owner);
  const { layers } = combined([...(await attachedStacks(db, suite.id)), ...ofServices.map(({ stack }) => stack)]);
  const own = layers.filter(({ id }) => id === params.dependency_id);
  const found = query.digest === '' ? own[0] : own.find(({ digest }) => digest === query.digest);
  return orNotFound(found).digest;
}

async function ofDependency({ db, caller, params, query }: Wanted): Promise<string | null> {
  const found = await db
    .selectFrom('dependencies')
    .select(['result', 'owner_id', 'shared'])
    .where('id', '=', params.dependency_id)
    .executeTakeFirst();
  if (!found) throw new ApiError('not_found');
  if (found.shared !== 1 && caller.projects !== 'all') throw new ApiError('not_found');
  if (found.shared !== 1) await admitToOwner(db, caller, found.owner_id, 'viewer');
  return query.digest === '' || query.digest === found.result ? found.result : null;
}

const packed = 'application/zstd';

export const routes = [
  projectRoute({
    ...suites.ofOne,
    access: 'viewer',
    method: 'GET',
    path: '/projects/:project_id/suites/:suite_id/software',
    summary:
      'The compiled software of a suite’s builds: its layers, lower ones first; the prefixes in the order of ' +
      'search paths; the launch commands; the same for services that run software; and dependencies not compiled yet',
    answer: softwareRecord,
    async handle({ db, suite, project }) {
      const stacks = await attachedStacks(db, suite.id);
      const ofServices = await stacksOfServices(db, suite, project.owner_id);
      const { missing } = combined([...stacks, ...ofServices.map(({ stack }) => stack)]);
      return {
        ...mounted(stacks),
        services: ofServices.map(({ name, stack }) => ({ name, ...mounted([stack]) })),
        launches: launchesOf(stacks),
        missing: missing.map(({ name }) => name),
      };
    },
  }),
  accountRoute({
    method: 'GET',
    path: '/dependencies/:dependency_id/result',
    access: 'users',
    inOrganisation: 'viewer',
    scope: 'dependencies',
    forSomeProjects: true,
    summary:
      'Download the output of the last compile of a dependency, as a tar compressed with zstd, or a range of it: of one of ' +
      'your own or a shared one; with suite_id of one that a suite uses, also as it was pinned (digest)',
    query: {
      suite_id: described(identifier(), 'As this suite uses it'),
      digest: text('digest', { pattern: /^[0-9a-f]{64}$/, description: 'Only this result' }),
    },
    streams: [packed],
    hasRanges: true,
    hasTag: true,
    answer: string,
    isForEverybody: isSharedByOther,
    async handle(call) {
      const digest = (await ofSuite(call)) ?? (await ofDependency(call));
      if (digest === null) throw new ApiError('not_found');
      await using blob = await call.blobs.open(digest);
      const file = { path: `${digest}.tar.zst`, size: BigInt(blob.size), sha256: digest, content_type: packed };
      return await fileOf(call, file);
    },
  }),
];
