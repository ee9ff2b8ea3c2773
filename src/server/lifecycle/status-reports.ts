import { createHash } from 'node:crypto';
import { sql } from 'kysely';
import type { Queries, Transaction } from '../db/open.ts';
import type { BuildRequestRow, BuildRow, CommitRow } from '../db/schema.ts';
import { nameWithVariant } from '../../shared/domain/matrix.ts';
import type { StoredStep } from '../views/build-steps.ts';
import { reasonText } from './reasons.ts';
import { isAllowedFailure } from './rollup.ts';
import { ruleText, type Rule } from './rules.ts';
import type { BuildState } from './states.ts';
import { testsOf } from '../results/test-results.ts';

export interface StatusReport {
  ref: string;
  context: string;
  /** An allowed failure is reported as `passed`: forges would otherwise refuse to merge the commit. */
  build_state: string;
  description: string;
  /** Below the address of the service. */
  path: string;
}

type Told = Pick<BuildRow, 'id' | 'exit_status' | 'failure_reason' | 'started_at' | 'finished_at'> &
  Pick<BuildRow, 'steps' | 'tests_failed' | 'held' | 'needs'>;

type Reported = Told &
  Pick<BuildRow, 'project_id' | 'attempt' | 'allow_failure' | 'suite_name' | 'variant' | 'retry'> &
  Pick<CommitRow, 'ref'> &
  Pick<BuildRequestRow, 'head_sha'>;

/**
 * Undefined if the suite and variant have a later attempt, or for a build of a deploy. Of a head, builds of a merge
 * decide, because the merge is what the pull request brings, and builds of the newest merge above all.
 */
const headOf = sql<string>`case build_requests.head_sha when '' then commits.ref else build_requests.head_sha end`;

const findReported = (trx: Transaction, id: bigint): Promise<Reported | undefined> =>
  trx
    .selectFrom('builds')
    .innerJoin('commits', 'commits.id', 'builds.commit_id')
    .innerJoin('build_requests', 'build_requests.id', 'builds.build_request_id')
    .select('build_requests.head_sha')
    .select(['builds.id', 'builds.project_id', 'builds.attempt', 'builds.exit_status', 'builds.failure_reason'])
    .select(['builds.started_at', 'builds.finished_at', 'builds.allow_failure', 'builds.steps', 'builds.tests_failed'])
    .select(['builds.variant', 'builds.retry', 'builds.suite_name', 'builds.held', 'builds.needs', 'commits.ref'])
    .where('builds.id', '=', id)
    .where('builds.counts', '=', 1)
    .where((where) =>
      where.not(
        where.exists(
          where
            .selectFrom('builds as newer')
            .select('newer.id')
            .whereRef('newer.commit_id', '=', 'builds.commit_id')
            .whereRef('newer.suite_name', '=', 'builds.suite_name')
            .whereRef('newer.variant', '=', 'builds.variant')
            .whereRef('newer.attempt', '>', 'builds.attempt')
            .where('newer.counts', '=', 1),
        ),
      ),
    )
    .where((where) =>
      where.not(
        where.exists(
          where
            .selectFrom('build_requests as other')
            .innerJoin('builds as merged', 'merged.build_request_id', 'other.id')
            .select('merged.id')
            .whereRef('other.project_id', '=', 'builds.project_id')
            .where('other.head_sha', '>', '')
            .where('other.head_sha', '=', headOf)
            .whereRef('other.id', '!=', 'builds.build_request_id')
            .whereRef('merged.suite_name', '=', 'builds.suite_name')
            .whereRef('merged.variant', '=', 'builds.variant')
            .where((which) =>
              which.or([
                which('build_requests.pull_request', 'is', null),
                which('merged.id', '>', which.ref('builds.id')),
              ]),
            ),
        ),
      ),
    )
    .executeTakeFirst();

export async function statusReport(
  trx: Transaction,
  { subjectId: id, state }: { subjectId: bigint; state: string },
): Promise<StatusReport | undefined> {
  const build = await findReported(trx, id);
  if (!build) return undefined;
  const isAllowed = isAllowedFailure(state as BuildState, build.allow_failure === 1);
  const allowed = isAllowed ? ' It is allowed to fail.' : '';
  const attempt = build.attempt > 1 ? ` This is attempt ${build.attempt}.` : '';
  return {
    ref: build.head_sha || build.ref,
    context: asContext(`headrace/${nameWithVariant(build.suite_name, build.variant)}`),
    build_state: isAllowed ? 'passed' : state,
    description: `${await sentence(trx, build, state as BuildState)}${allowed}${attempt}`,
    path: `/ui/projects/${build.project_id}/builds/${build.id}`,
  };
}

/**
 * Reports a suite that does not run. Without the report, a check that the forge requires would stay pending for ever.
 */
export function leftOutReport(about: {
  projectId: bigint;
  requestId: bigint;
  ref: string;
  name: string;
  rule: Rule;
}): StatusReport {
  return {
    ref: about.ref,
    context: asContext(`headrace/${about.name}`),
    build_state: 'passed',
    description: `left out: its rule ${ruleText(about.rule)} is not met.`,
    path: `/ui/projects/${about.projectId}/requests/${about.requestId}`,
  };
}

/** Forges refuse longer names. */
const longestContext = 255;

/** Cuts a long name and adds a part of its hash, so that different names stay different. */
function asContext(name: string): string {
  if (name.length <= longestContext) return name;
  const hash = createHash('sha256').update(name).digest('hex').slice(0, 12);
  const beginning = name.slice(0, longestContext - hash.length - 2);
  return `${beginning.replace(/[\uD800-\uDBFF]$/, '')}… ${hash}`;
}

export async function sentence(db: Queries, build: Told, state: BuildState): Promise<string> {
  if (state === 'enqueued') return waitingSentence(build);
  if (state === 'waiting_for_approval') return 'Waiting for approval.';
  if (state === 'running') return 'Running.';
  if (state === 'passed') return `Passed${after(build)}.`;
  if (state === 'cancelled') return 'Cancelled.';
  if (build.failure_reason !== '') return reasonText(build.failure_reason);
  if (state === 'failed') {
    const how = `with exit status ${build.exit_status ?? 'unknown'}${after(build)}.`;
    const first = await firstFailed(db, build);
    return first === undefined ? `Failed ${how}` : `${first} failed, ${how}`;
  }
  return state === 'timed_out' ? reasonText('timed_out') : 'It could not be run.';
}

function waitingSentence({ held, needs }: Told): string {
  if (held === 'group') return 'Waiting for its group.';
  return held === 'needs' && needs !== '[]' ? 'Waiting for suites that it needs.' : 'Waiting for a runner.';
}

const longestName = 70;

/** A test, if the build reported tests, and otherwise a step. */
async function firstFailed(db: Queries, build: Told): Promise<string | undefined> {
  const [test] = build.tests_failed > 0 ? await testsOf(db, build.id, { state: 'failed', limit: 1 }) : [];
  if (test) return `The test ${inShort(test.name)}`;
  const steps = build.steps === '' ? [] : (JSON.parse(build.steps) as StoredStep[]);
  const step = steps.find((one) => one.state === 'failed');
  return step && `The step ${inShort(step.name)}`;
}

function inShort(name: string): string {
  const line = name.replaceAll(/[\s\p{Cc}]+/gu, ' ').trim();
  return line.length <= longestName ? line : `${line.slice(0, longestName - 1).toWellFormed()}…`;
}

function after({ started_at: started, finished_at: finished }: Told): string {
  if (started === null || finished === null) return '';
  const seconds = Number(finished - started) / 1000;
  if (seconds < 60) return ` after ${seconds.toFixed(1)} s`;
  return ` after ${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
}
