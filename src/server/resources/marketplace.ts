import { sql } from 'kysely';
import { onPage } from '../api/pages.ts';
import { accountRoute } from '../api/route.ts';
import { ApiError } from '../../shared/errors.ts';
import { text } from '../../shared/records/fields.ts';
import { pageOf } from '../http/paging.ts';
import { share, unshare } from '../software/dependencies.ts';
import { dependencyRecord } from '../../shared/records/dependency.ts';
import { listOf } from '../../shared/records/schema.ts';
import { likePattern, writeContextOf } from './common.ts';
import { dependencies } from './dependencies.ts';
import { reloaded, viewsWithRelated, viewWithRelated } from './dependency-views.ts';

export const routes = [
  accountRoute({
    ...dependencies.ofOne,
    method: 'POST',
    path: '/dependencies/:dependency_id/share',
    summary: 'Share a compiled dependency with every account',
    answer: dependencyRecord,
    audit: {
      action: 'dependency.shared',
      subject: ({ dependency }) => (dependency.shared === 1 ? undefined : dependency),
    },
    async handle(call) {
      const { db, dependency } = call;
      if (!(await share(writeContextOf(call), dependency))) throw new ApiError('resource_temporary_unavailable');
      return viewWithRelated(db, await reloaded(db, dependency));
    },
  }),
  accountRoute({
    ...dependencies.ofOne,
    method: 'POST',
    path: '/dependencies/:dependency_id/unshare',
    summary: 'Stop sharing a dependency: other accounts can no longer attach it; suites that have it keep it',
    answer: dependencyRecord,
    audit: {
      action: 'dependency.unshared',
      subject: ({ dependency }) => (dependency.shared === 1 ? dependency : undefined),
    },
    async handle(call) {
      const { db, dependency } = call;
      if (!(await unshare(writeContextOf(call), dependency))) throw new ApiError('resource_temporary_unavailable');
      return viewWithRelated(db, await reloaded(db, dependency));
    },
  }),
  accountRoute({
    method: 'GET',
    path: '/marketplace',
    access: 'users',
    scope: 'dependencies',
    summary: 'List the dependencies that every account may use; `name` searches',
    query: { name: text('name', { description: 'A part of the name' }) },
    paged: true,
    answer: listOf(dependencyRecord),
    async handle({ db, query: { name }, page }) {
      let shared = db.selectFrom('dependencies').selectAll().where('shared', '=', sql.lit(1));
      if (name !== '') shared = shared.where(sql<boolean>`lower(name) like ${likePattern(name)} escape '!'`);
      return pageOf(page, await viewsWithRelated(db, await onPage(shared, 'id', page).execute()));
    },
  }),
];
