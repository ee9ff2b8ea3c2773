import { onPage } from '../api/pages.ts';
import { projectRoute } from '../api/route.ts';
import type { CommitRow } from '../db/schema.ts';
import { pageOf } from '../http/paging.ts';
import { commitItemView as itemView, commitView as view } from '../views/commit.ts';
import { commitItemRecord, commitRecord } from '../../shared/records/commit.ts';
import { listOf } from '../../shared/records/schema.ts';
import { orNotFound, type InProject } from './common.ts';

export async function loadCommit(call: InProject<'commit_id'>): Promise<{ commit: CommitRow }> {
  const query = call.db.selectFrom('commits').selectAll().where('id', '=', call.params.commit_id);
  return { commit: orNotFound(await query.where('project_id', '=', call.project.id).executeTakeFirst()) };
}

export const routes = [
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id/commits',
    access: 'public',
    scope: 'commits',
    summary: 'List the commits of a project that were fetched',
    paged: true,
    answer: listOf(commitItemRecord),
    async handle({ db, project, page }) {
      const commits = db.selectFrom('commits').select(['id', 'version', 'ref', 'build_state']);
      const rows = await onPage(commits.where('project_id', '=', project.id), 'id', page).execute();
      return pageOf(page, rows.map(itemView));
    },
  }),
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id/commits/:commit_id',
    access: 'public',
    scope: 'commits',
    summary: 'Fetch a commit',
    answer: commitRecord,
    load: loadCommit,
    handle: async ({ commit }) => view(commit),
  }),
];
