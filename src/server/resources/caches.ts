import { projectRoute } from '../api/route.ts';
import type { Queries } from '../db/open.ts';
import type { CacheRow, ProjectRow } from '../db/schema.ts';
import { timestamp } from '../../shared/lib/timestamps.ts';
import { deleteCaches } from '../outputs/caches.ts';
import { cacheRecord } from '../../shared/records/suite.ts';
import { destroyed, destroyedAnswer, withIdString, writeContextOf } from './common.ts';
import { byList, projectRecords } from './record-routes.ts';

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

const caches = projectRecords({
  path: '/projects/:project_id/caches',
  name: 'cache',
  access: 'developer',
  reads: 'viewer',
  scope: 'suites',
  fields: {},
  answer: cacheRecord,
  rows: ({ db, project }) =>
    byList(() => keptFor(db, project).orderBy('last_used_at', 'desc').orderBy('id', 'desc').execute()),
  view,
  subject: ({ id, branch }) => ({ id, name: branch }),
});

export const routes = [
  caches.list('List the caches of a project and the data of its services, the most recently used first'),
  projectRoute({
    method: 'DELETE',
    path: '/projects/:project_id/caches',
    access: 'developer',
    scope: 'suites',
    summary: 'Delete all caches of a project and the data of its services',
    answer: destroyedAnswer,
    audit: { action: 'caches.deleted', subject: ({ project }) => project },
    async handle(call) {
      await deleteCaches(writeContextOf(call), call.project.id);
      return destroyed;
    },
  }),
  caches.remove(
    'Delete a cache or the data of a service: the next build of the suite on that branch starts without it',
    { handle: (call) => deleteCaches(writeContextOf(call), call.project.id, call.cache.id) },
  ),
];
