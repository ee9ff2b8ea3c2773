import { projectRoute } from '../api/route.ts';
import { annotationRecord } from '../../shared/records/build.ts';
import { listOf } from '../../shared/records/schema.ts';
import { annotationsOf } from '../lifecycle/build-annotations.ts';
import { findBuild } from './builds.ts';
import { unlessBusy } from './log-lines.ts';

/** The response waits this long for a log that is not packed yet. */
const searchMs = 250;

export const routes = [
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id/builds/:build_id/annotations',
    access: 'public',
    scope: 'commits',
    summary:
      'List the problems that a build reported at lines of files: its failed tests, and lines of its log such as ' +
      '::error file=F,line=N::TEXT',
    answer: listOf(annotationRecord),
    async handle(call) {
      const { db, project, params, caller } = call;
      const build = await findBuild(db, project.id, params.build_id);
      const wanted = { account: caller.id, milliseconds: searchMs };
      return annotationsOf(call, build, wanted).catch(unlessBusy);
    },
  }),
];
