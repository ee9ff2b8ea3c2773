import { onPage } from '../api/pages.ts';
import { projectRoute } from '../api/route.ts';
import type { Queries } from '../db/open.ts';
import type { CommitRow } from '../db/schema.ts';
import { pageOf } from '../http/paging.ts';
import * as schema from '../http/schema.ts';
import { commitItemView as itemView, commitView as view } from '../views/commit.ts';
import { idTwin, orNotFound } from './common.ts';

const itemFields = { ...idTwin, version: schema.integer, ref: schema.string, build_state: schema.string };

const answer = schema.record({
  ...itemFields,
  message: schema.string,
  scm_author_name: schema.string,
  scm_author_email: schema.string,
  scm_authored_date: schema.dateTime,
  scm_committer_name: schema.string,
  scm_committer_email: schema.string,
  scm_committed_date: schema.dateTime,
});

/** The commit in the path, if it belongs to the project. */
export async function loadCommit(call: CommitInPath): Promise<{ commit: CommitRow }> {
  const query = call.db.selectFrom('commits').selectAll().where('id', '=', call.params.commit_id);
  return { commit: orNotFound(await query.where('project_id', '=', call.project.id).executeTakeFirst()) };
}

interface CommitInPath {
  db: Queries;
  project: { id: bigint };
  params: { commit_id: bigint };
}

export const routes = [
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id/commits',
    access: 'both',
    scope: 'commits',
    summary: 'List the commits of a project that were fetched',
    paged: true,
    answer: schema.listOf(schema.record(itemFields)),
    async handle({ db, project, page }) {
      const commits = db.selectFrom('commits').select(['id', 'version', 'ref', 'build_state']);
      const rows = await onPage(commits.where('project_id', '=', project.id), 'id', page).execute();
      return pageOf(page, rows.map(itemView));
    },
  }),
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id/commits/:commit_id',
    access: 'both',
    scope: 'commits',
    summary: 'Fetch a commit',
    answer,
    load: loadCommit,
    handle: async ({ commit }) => view(commit),
  }),
];
