import { projectRoute } from '../api/route.ts';
import { projectsSeenBy } from '../auth/projects.ts';
import type { Queries } from '../db/open.ts';
import { ApiError } from '../../shared/errors.ts';
import { described, required, text } from '../../shared/records/fields.ts';
import type { SlowStep } from '../../shared/records/overview.ts';
import { timestamp } from '../../shared/lib/timestamps.ts';
import { suiteFiguresRecord } from '../../shared/records/suite-figures.ts';
import { quietStep } from '../lifecycle/slow-steps.ts';
import { usageOf } from '../views/build-usage.ts';
import { startOfMessage, withIdString } from './common.ts';
import { suites } from './suites.ts';

const mostBuilds = 200;
/** Newest builds that are searched for variants. */
const mostSearched = 1000;
const mostSlow = 20;

/** Of the caller's projects, the newest first. */
export async function slowStepsOf(db: Queries, caller: Parameters<typeof projectsSeenBy>[1]): Promise<SlowStep[]> {
  const rows = await projectsSeenBy(db, caller)
    .innerJoin('slow_steps as s', 's.project_id', 'p.id')
    .innerJoin('suites', 'suites.id', 's.suite_id')
    .innerJoin('commits as c', 'c.id', 's.commit_id')
    .select(['s.id', 's.project_id', 's.suite_id', 's.variant', 's.branch', 's.step', 's.median_ms', 's.commit_id'])
    .select(['p.name as project_name', 'suites.name', 'c.ref', startOfMessage('c.message').as('message')])
    .where('s.is_quiet', '=', 0)
    .orderBy('s.id', 'desc')
    .limit(mostSlow)
    .execute();
  return rows.map(({ project_id: project, suite_id: suite, commit_id: commit, name, ref, ...row }) => ({
    ...withIdString('id', row.id),
    ...withIdString('project_id', project),
    project_name: row.project_name,
    ...withIdString('suite_id', suite),
    suite_name: name,
    variant: row.variant,
    branch: row.branch,
    step: row.step,
    median_ms: row.median_ms,
    ...withIdString('commit_id', commit),
    commit_ref: ref,
    message: row.message,
  }));
}

export const routes = [
  projectRoute({
    ...suites.ofOne,
    access: 'viewer',
    scope: 'commits',
    method: 'GET',
    path: '/projects/:project_id/suites/:suite_id/figures',
    summary: 'What the last 200 builds of a suite, in one variant of its matrix, took and used',
    query: { variant: described(text('variant'), 'By default the variant of the newest build') },
    answer: suiteFiguresRecord,
    async handle({ db, suite, query: { variant: asked } }) {
      const builds = await db
        .selectFrom('builds')
        .select(['id', 'variant', 'build_state', 'created_at', 'started_at', 'finished_at', 'usage'])
        .select(['tests_passed', 'tests_failed', 'tests_skipped'])
        .where('suite_id', '=', suite.id)
        .where('started_at', 'is not', null)
        .where('finished_at', 'is not', null)
        .orderBy('id', 'desc')
        .limit(mostSearched)
        .execute();
      const variants = [...new Set(builds.map(({ variant }) => variant))].toSorted();
      const variant = asked === '' ? (builds[0]?.variant ?? '') : asked;
      return {
        variant,
        variants,
        builds: builds
          .filter((build) => build.variant === variant)
          .slice(0, mostBuilds)
          .toReversed()
          .map(({ id, created_at: created, started_at: started, finished_at: finished, ...build }) => ({
            ...withIdString('id', id),
            build_state: build.build_state,
            created_at: timestamp(created),
            duration_ms: finished === null || started === null ? null : Number(finished - started),
            queue_ms: started === null ? null : Math.max(0, Number(started - created)),
            tests: build.tests_passed + build.tests_failed + build.tests_skipped,
            ...usageOf(build),
          })),
      };
    },
  }),
  projectRoute({
    ...suites.ofOne,
    method: 'POST',
    path: '/projects/:project_id/suites/:suite_id/quiet',
    summary: 'Stop showing on the dashboard that a step is slow, until it was quick again',
    body: { step: required(described(text('stepName'), 'the name of the step')) },
    answer: suites.answer,
    audit: 'nothing',
    async handle(call) {
      const { db, suite, input } = call;
      if (!(await quietStep(db, suite.id, input.step))) throw new ApiError('invalid_format', 'step');
      return suites.view(suite, call);
    },
  }),
];
