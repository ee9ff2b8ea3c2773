import { projectRoute } from '../api/route.ts';
import type { CacheRow } from '../db/schema.ts';
import { timestamp } from '../lib/timestamps.ts';
import { deleteCaches } from '../lifecycle/caches.ts';
import { cacheRecord } from '../records/suite.ts';
import { listOf } from '../records/schema.ts';
import { destroyed, destroyedAnswer, orNotFound, withIdString, writeContextOf, type InProject } from './common.ts';

function view({ id, suite_id: suite, branch, size, created_at: made, last_used_at: used }: CacheRow) {
  return {
    ...withIdString('id', id),
    ...withIdString('suite_id', suite),
    branch,
    size: Number(size),
    created_at: timestamp(made),
    last_used_at: timestamp(used),
  };
}

async function loadCache({ db, project, params }: InProject<'cache_id'>): Promise<{ cache: CacheRow }> {
  const query = db.selectFrom('caches').selectAll().where('id', '=', params.cache_id);
  return { cache: orNotFound(await query.where('project_id', '=', project.id).executeTakeFirst()) };
}

/** A cache has no name, so the audit log uses its branch. */
const asSubject = ({ cache }: { cache: CacheRow }) => ({ ...cache, name: cache.branch });

export const routes = [
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id/caches',
    access: 'both',
    scope: 'suites',
    summary: 'List the caches of a project, those used last first',
    answer: listOf(cacheRecord),
    async handle({ db, project }) {
      const all = db.selectFrom('caches').selectAll().where('project_id', '=', project.id);
      return (await all.orderBy('last_used_at', 'desc').orderBy('id', 'desc').execute()).map(view);
    },
  }),
  projectRoute({
    method: 'DELETE',
    path: '/projects/:project_id/caches',
    access: 'both',
    scope: 'suites',
    summary: 'Delete all caches of a project',
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
    summary: 'Delete a cache: the next build of the suite on that branch begins without it',
    answer: destroyedAnswer,
    load: loadCache,
    audit: { action: 'cache.deleted', subject: asSubject },
    async handle(call) {
      await deleteCaches(writeContextOf(call), call.project.id, call.cache.id);
      return destroyed;
    },
  }),
];
