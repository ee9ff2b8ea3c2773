import { onPage } from '../api/pages.ts';
import { projectRoute } from '../api/route.ts';
import type { BuildRow } from '../db/schema.ts';
import { pageOf } from '../http/paging.ts';
import * as schema from '../http/schema.ts';
import { timestamp, timestampOrNull } from '../lib/timestamps.ts';
import { loadCommit } from './commits.ts';
import { idTwin, orNotFound, twin } from './common.ts';

const answer = schema.record({
  ...idTwin,
  suite_id: schema.id,
  suite_id_str: schema.string,
  commit_id: schema.id,
  commit_id_str: schema.string,
  build_state: schema.string,
  attempt: schema.integer,
  exit_status: schema.nullable(schema.integer),
  failure_reason: schema.string,
  created_at: schema.dateTime,
  started_at: schema.nullable(schema.dateTime),
  finished_at: schema.nullable(schema.dateTime),
});

function view(build: BuildRow) {
  return {
    ...twin('id', build.id),
    ...twin('suite_id', build.suite_id),
    ...twin('commit_id', build.commit_id),
    build_state: build.build_state,
    attempt: build.attempt,
    exit_status: build.exit_status,
    failure_reason: build.failure_reason,
    created_at: timestamp(build.created_at),
    started_at: timestampOrNull(build.started_at),
    finished_at: timestampOrNull(build.finished_at),
  };
}

export const routes = [
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id/commits/:commit_id/builds',
    access: 'both',
    scope: 'commits',
    summary: 'List the builds of a commit, every attempt of every suite',
    paged: true,
    answer: schema.listOf(answer),
    load: loadCommit,
    async handle({ db, commit, page }) {
      const builds = db.selectFrom('builds').selectAll().where('commit_id', '=', commit.id);
      return pageOf(page, (await onPage(builds, 'id', page).execute()).map(view));
    },
  }),
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id/builds/:build_id',
    access: 'both',
    scope: 'commits',
    summary: 'Fetch a build',
    answer,
    async handle({ db, project, params }) {
      const builds = db.selectFrom('builds').selectAll().where('project_id', '=', project.id);
      return view(orNotFound(await builds.where('id', '=', params.build_id).executeTakeFirst()));
    },
  }),
];
