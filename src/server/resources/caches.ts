import { projectRoute } from '../api/route.ts';
import type { Queries } from '../db/open.ts';
import type { CacheRow, ProjectRow } from '../db/schema.ts';
import { timestamp } from '../../shared/lib/timestamps.ts';
import { deleteCaches } from '../outputs/caches.ts';
import { cacheRecord } from '../../shared/records/suite.ts';
import { listOf } from '../../shared/records/schema.ts';
import { destroyed, destroyedAnswer, orNotFound, withIdString, writeContextOf, type InProject } from './common.ts';

const columns = ['id', 'suite_id', 'branch', 'size', 'created_at', 'last_used_at'] as const;
type Kept = Pick<CacheRow, (typeof columns)[number]>;

function keptFor(db: Queries, project: Pick<ProjectRow, 'id'>) {
  const data = db.selectFrom('service_data').select(columns).where('project_id', '=', project.id);
  return db.selectFrom('caches').select(columns).where('project_id', '=', project.id).unionAll(data);
}

function view({ id, suite_id: suite, branch, size, created_at: made, last_used_at: used }: Kept) {
  return {
    ...withIdString('id', id),
    ...withIdString('suite_id', suite),
    branch,
    size: Number(size),
    created_at: timestamp(made),
    last_used_at: timestamp(used),
  };
}

async function loadCache({ db, project, params }: InProject<'cache_id'>): Promise<{ cache: Kept }> {
  const all = await keptFor(db, project).execute();
  return { cache: orNotFound(all.find(({ id }) => id === params.cache_id)) };
}

/** A cache has no name, so the audit log uses its branch. */
const asSubject = ({ cache }: { cache: Kept }) => ({ ...cache, name: cache.branch });

export const routes = [
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id/caches',
    access: 'both',
    scope: 'suites',
    summary: 'List the caches of a project and the data of its services, those used last first',
    answer: listOf(cacheRecord),
    async handle({ db, project }) {
      return (await keptFor(db, project).orderBy('last_used_at', 'desc').orderBy('id', 'desc').execute()).map(view);
    },
  }),
  projectRoute({
    method: 'DELETE',
    path: '/projects/:project_id/caches',
    access: 'both',
    scope: 'suites',
    summary: 'Delete all caches of a project and the data of its services',
    answer: destroyedAnswer,
    audit: { action: 'caches.deleted', subject: ({ project }) => project },
    async handle(call) {
      await deleteCaches(writeContextOf(call), call.project.id);
      return destroyed;
    },
  }),
  projectRoute({
    method: 'DELETE',
    path: '/projects/:project_id/caches/:cache_id',
    access: 'both',
    scope: 'suites',
    summary: 'Delete a cache or the data of a service: the next build of the suite on that branch begins without it',
    answer: destroyedAnswer,
    load: loadCache,
    audit: { action: 'cache.deleted', subject: asSubject },
    async handle(call) {
      await deleteCaches(writeContextOf(call), call.project.id, call.cache.id);
      return destroyed;
    },
  }),
];
