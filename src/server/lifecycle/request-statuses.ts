import { sql, type RawBuilder } from 'kysely';
import type { Queries, Transaction } from '../db/open.ts';
import type { BuildRequestRow, BuildRow, CommitRow } from '../db/schema.ts';
import { reasonText } from './reasons.ts';
import { isAllowedFailure, newestAttempts } from './rollup.ts';
import { buildRequestMachine, isFinal, type BuildRequestState, type BuildState } from './states.ts';
import type { StatusReport } from './status-reports.ts';

/**
 * The status of a whole request, as `headrace`, so that a forge can require one name, whatever the suites. Triggered
 * requests for all suites report it once the SHA is known, and again at the end.
 */
export const requestContext = 'headrace';

type Reported = Pick<
  BuildRequestRow,
  'id' | 'project_id' | 'commit_ref' | 'commit_id' | 'joined_to_id' | 'fetch' | 'head_sha' | 'pull_request'
> & {
  ref: CommitRow['ref'] | null;
};

const findReported = (db: Queries, id: bigint): Promise<Reported | undefined> =>
  db
    .selectFrom('build_requests')
    .leftJoin('commits', 'commits.id', 'build_requests.commit_id')
    .select(['build_requests.id', 'build_requests.project_id', 'build_requests.commit_ref', 'build_requests.fetch'])
    .select(['build_requests.commit_id', 'build_requests.joined_to_id', 'build_requests.head_sha', 'commits.ref'])
    .select('build_requests.pull_request')
    .where('build_requests.id', '=', id)
    .where('build_requests.suites', '=', '[]')
    .where((where) =>
      where.or([
        where('build_requests.trigger', '!=', ''),
        where.exists(
          where
            .selectFrom('build_requests as triggered')
            .select('triggered.id')
            .whereRef('triggered.commit_id', '=', 'build_requests.commit_id')
            .where('triggered.trigger', '!=', ''),
        ),
      ]),
    )
    .executeTakeFirst();

/** Builds of later requests for the whole commit. `counted` are the request and the request that it joined. */
const findLater = (
  db: Queries,
  commit: bigint | null,
  counted: readonly bigint[],
): Promise<{ id: bigint } | undefined> =>
  db
    .selectFrom('builds')
    .innerJoin('build_requests as other', 'other.id', 'builds.build_request_id')
    .select('builds.id')
    .where('builds.commit_id', '=', commit)
    .where('other.id', 'not in', counted)
    .where('other.suites', '=', '[]')
    .where('other.build_state', '!=', 'cancelled')
    .where('builds.retry', '=', 0)
    .where('builds.by_machine', '=', 0)
    .where('builds.id', '>', (of) =>
      of
        .selectFrom('builds as begun')
        .select((each) => each.fn.max('begun.id').as('id'))
        .where('begun.build_request_id', 'in', counted)
        .where('begun.retry', '=', 0)
        .where('begun.by_machine', '=', 0),
    )
    .limit(1)
    .executeTakeFirst();

/**
 * Another request that merged the head. It decides over a push of the head, because the merge is what the pull request
 * brings. Of two requests of pull requests, the one whose builds were asked for last decides.
 */
const findMerge = (
  db: Queries,
  { id, project_id: project, pull_request: pull }: Reported,
  sha: string,
): Promise<{ id: bigint } | undefined> =>
  db
    .selectFrom('build_requests as other')
    .select('other.id')
    .where('other.project_id', '=', project)
    .where('other.head_sha', '>', '')
    .where('other.head_sha', '=', sha)
    .where('other.id', '!=', id)
    .where('other.suites', '=', '[]')
    .where('other.build_state', '!=', 'cancelled')
    .$if(pull !== null, (some) => some.where(begunIn(sql.ref('other.id')), '>', begunIn(sql.lit(id))))
    .limit(1)
    .executeTakeFirst();

/** The newest build that was asked for, or the request itself. */
const begunIn = (request: RawBuilder<unknown>) => sql<bigint>`coalesce((
  select max(begun.id) from builds as begun
  where begun.build_request_id = ${request} and begun.retry = 0 and begun.by_machine = 0
), ${request})`;

/** A request that joined this one. Its end is reported instead, unless it was cancelled. */
const findJoined = (db: Queries, id: bigint): Promise<{ id: bigint } | undefined> =>
  db
    .selectFrom('build_requests')
    .select('id')
    .where('joined_to_id', '=', id)
    .where('fetch', '!=', 'cancelled')
    .limit(1)
    .executeTakeFirst();

/**
 * Whether the request was cancelled while the request that it joined continues. Then the end of the joined request is
 * reported instead.
 */
async function isLeft(db: Queries, { fetch, joined_to_id: first }: Reported): Promise<boolean> {
  if (first === null || fetch !== 'cancelled') return false;
  const requests = db.selectFrom('build_requests').select('build_state').where('id', '=', first);
  const { build_state: state } = await requests.executeTakeFirstOrThrow();
  return !isFinal(buildRequestMachine, state as BuildRequestState);
}

type Counted = Pick<
  BuildRow,
  'build_request_id' | 'suite_name' | 'variant' | 'attempt' | 'build_state' | 'allow_failure'
>;
const findBuilds = (db: Queries, counted: readonly bigint[]): Promise<Counted[]> =>
  db
    .selectFrom('builds')
    .select(['build_request_id', 'suite_name', 'variant', 'attempt', 'build_state', 'allow_failure'])
    .where('build_request_id', 'in', counted)
    .execute();

interface Moved {
  subjectId: bigint;
  state: string;
  from?: string | undefined;
  reason?: string | undefined;
  sha?: string | undefined;
  words?: string | undefined;
}

/** Undefined if there is nothing to report, or the SHA is not known. */
export async function requestReport(trx: Transaction, moved: Moved): Promise<StatusReport | undefined> {
  const state = moved.state as BuildRequestState;
  const request = await findReported(trx, moved.subjectId);
  const isNamed = request !== undefined && /^[0-9a-f]{40}$/.test(request.commit_ref);
  const ref = request?.head_sha || (request?.ref ?? moved.sha ?? (isNamed ? request.commit_ref : undefined));
  if (!request || ref === undefined) return undefined;
  const isOver = isFinal(buildRequestMachine, state);
  const isAgain = moved.from !== undefined && isFinal(buildRequestMachine, moved.from as BuildRequestState);
  // The beginning was reported before the fetch.
  if (state === 'building' && isNamed && !isAgain) return undefined;
  if (isOver && ((await findJoined(trx, request.id)) || (await isLeft(trx, request)))) return undefined;
  const { joined_to_id: first, commit_id: commit } = request;
  const counted = first === null ? [request.id] : [first, request.id];
  // Of two requests for one commit, the later one decides the status.
  if (isOver && (await findLater(trx, commit, counted))) return undefined;
  if (await findMerge(trx, request, ref)) return undefined;
  return {
    ref,
    context: requestContext,
    build_state: isOver ? state : 'enqueued',
    description: isOver
      ? (moved.words ?? (await endingSentence(trx, counted, state, moved.reason)))
      : beforeTheEnd(state, request),
    path: `/ui/projects/${request.project_id}/requests/${request.id}`,
  };
}

function beforeTheEnd(state: BuildRequestState, { fetch }: Reported): string {
  if (state === buildRequestMachine.held) return 'Waiting for approval';
  return fetch === 'done' ? 'Running the suites' : 'Fetching the commit';
}

/** `counted` are the request and the request that it joined. */
export async function endingSentence(
  db: Queries,
  counted: readonly bigint[],
  state: BuildRequestState,
  reason?: string,
): Promise<string> {
  if (state === 'cancelled') return 'Cancelled';
  if (reason !== undefined) return reasonText(reason);
  const found = (await findBuilds(db, counted)).map(({ allow_failure: allowed, ...build }) => ({
    ...build,
    isAllowed: isAllowedFailure(build.build_state as BuildState, allowed === 1),
  }));
  const byRequest = Map.groupBy(found, ({ build_request_id: request }) => request);
  const builds = Array.from(byRequest.values()).flatMap((some) => newestAttempts(some));
  const suites = (those: typeof builds): number => new Set(those.map(({ suite_name: suite }) => suite)).size;
  const all = suites(builds);
  const count = `${all} ${all === 1 ? 'suite' : 'suites'}`;
  if (state === 'passed') return all === 0 ? 'No suite had to run' : `${count} passed`;
  const wrong = state === 'failed' ? ['failed', 'timed_out'] : ['errored'];
  const bad = suites(builds.filter((build) => wrong.includes(build.build_state) && !build.isAllowed));
  return `${bad} of ${count} ${state === 'failed' ? 'failed' : 'could not be run'}`;
}
