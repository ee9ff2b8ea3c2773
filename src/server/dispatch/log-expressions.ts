import type { Runner } from '../auth/runners.ts';
import type { Blobs } from '../db/blobs.ts';
import type { Database } from '../db/open.ts';
import { isUnavailable } from '../db/unavailable.ts';
import { settingsOf } from '../lifecycle/file-suites.ts';
import { mostTries, retryOn } from '../lifecycle/tries.ts';
import type { Outcome } from '../../shared/protocol/index.ts';
import { lineIndex, type LineIndex } from '../streams/line-index.ts';
import { searchLog, type SearchThread } from '../streams/search.ts';
import type { ConfiguredReport } from './repository-config.ts';

export interface SearchedReport extends ConfiguredReport {
  isInLog?: boolean;
}

export interface LogExpressionsParts {
  db: Database;
  blobs: Blobs;
  searches: SearchThread;
}

/** For all expressions of a build. The runner waits for its answer. */
const searchMs = 5000;
const tooLong = 'Not all of the log was searched for the expressions of retry_on: it took too long.';

const isBad = (outcome: Outcome): boolean =>
  outcome.kind === 'exited'
    ? outcome.status !== 0
    : ['launch_failed', 'timed_out', 'killed', 'unfetchable', 'unrunnable', 'cut_short'].includes(outcome.kind);

/**
 * Searches the log of a build that did not pass for the expressions in `retry_on[]` of its suite. Outside of the
 * transaction that settles the outcome, because a search takes time.
 */
export function createLogExpressions(parts: LogExpressionsParts) {
  return async (runner: Runner, report: ConfiguredReport): Promise<SearchedReport> => {
    if (!isBad(report.outcome)) return report;
    const wanted = await expressionsFor(parts, runner, report.claim);
    if (!wanted) return report;
    const index = await lineIndex({ ...parts, db: parts.db.read }, wanted.build);
    if (!index) return report;
    const isInLog = await search(parts, index, wanted);
    return isInLog === undefined ? { ...report, lines: [...(report.lines ?? []), tooLong] } : { ...report, isInLog };
  };
}

interface Wanted {
  build: bigint;
  account: bigint;
  expressions: readonly string[];
}

/** Undefined if the build would not be tried again anyway. */
async function expressionsFor(
  { db: { read } }: LogExpressionsParts,
  { holder }: Runner,
  claim: string,
): Promise<Wanted | undefined> {
  const build = await read
    .selectFrom('jobs')
    .innerJoin('builds', 'builds.id', 'jobs.subject_id')
    .select(['builds.id', 'builds.project_id', 'builds.build_request_id', 'builds.suite_id', 'builds.suite_name'])
    .select(['builds.variant', 'jobs.account_id'])
    .where('jobs.claim', '=', claim)
    .where('jobs.holder', '=', holder)
    .where('jobs.kind', '=', 'run_suite')
    .where('jobs.cancelled', '=', 0)
    .where('builds.faults', '<', mostTries - 1)
    .executeTakeFirst();
  const settings = build && (await settingsOf(read, build));
  if (!build || !settings) return undefined;
  const { expressions } = retryOn(settings);
  return expressions.length === 0 ? undefined : { build: build.id, account: build.account_id, expressions };
}

/** Undefined if not everything could be searched in time. */
async function search(
  { db, blobs, searches }: LogExpressionsParts,
  index: LineIndex,
  { account, expressions }: Wanted,
): Promise<boolean | undefined> {
  const until = performance.now() + searchMs;
  const parts = { db: db.read, blobs, searches };
  try {
    for (const expression of expressions)
      for (let from: number | null = 1; from !== null;) {
        const milliseconds = until - performance.now();
        if (milliseconds <= 0) return undefined;
        const wanted = { expression, from, limit: 1, account, milliseconds };
        const { matches, next } = await searchLog(parts, index, wanted);
        if (matches.length > 0) return true;
        from = next;
      }
    return false;
  } catch (error) {
    if (isUnavailable(error)) throw error;
    return undefined; // the thread has too many searches, or one took too long
  }
}
