import type { Queries } from '../db/open.ts';
import type { BuildRequestRow } from '../db/schema.ts';
import { lastRun, spanOf, waitedIn } from '../lifecycle/last-run.ts';
import { isBehind } from '../lifecycle/merges.ts';
import { buildRequestMachine, isFinal, type BuildRequestState } from '../lifecycle/states.ts';
import { timestamp, timestampOrNull } from '../../shared/lib/timestamps.ts';
import type { RequestDetails } from '../../shared/records/overview.ts';

/** When it was fetched is only in its events. */
export async function timesOf(db: Queries, id: bigint): Promise<RequestDetails> {
  const request = await db.selectFrom('build_requests').selectAll().where('id', '=', id).executeTakeFirstOrThrow();
  const builds = await db
    .selectFrom('builds')
    .select(['created_at', 'started_at', 'finished_at'])
    .where('build_request_id', '=', id)
    .where('checks_id', 'is', null)
    .execute();
  const events = await db
    .selectFrom('events')
    .select(['state', 'created_at'])
    .where('subject_id', '=', id)
    .where('type', '=', 'build_request')
    .orderBy('sequence')
    .execute();
  const run = lastRun(builds);
  const fetch = fetchIn(events);
  const isAgain = run.length < builds.length;
  const from = isAgain
    ? run.reduce((a, b) => (b.created_at < a ? b.created_at : a), run[0]?.created_at ?? 0n)
    : request.created_at;
  const span = spanOf(run);
  const isOver = isFinal(buildRequestMachine, request.build_state as BuildRequestState);
  const ended = isOver ? (span.finished_at ?? events.at(-1)?.created_at ?? from) : null;
  const to = ended === null || ended < from ? BigInt(Math.max(Date.now(), Number(from))) : ended;
  return {
    asked_at: timestamp(from),
    fetch_started_at: timestampOrNull(fetch.started_at),
    fetch_finished_at: timestampOrNull(fetch.finished_at),
    started_at: timestampOrNull(span.started_at),
    finished_at: timestampOrNull(ended),
    duration_ms: Number(to - from),
    merge: request.merge_base === '' ? null : await mergeOf(db, request),
    waited_ms: Number(
      waitedIn(fetch.started_at !== null && fetch.started_at >= from ? [fetch, ...run] : run, { from, to }),
    ),
  };
}

async function mergeOf(db: Queries, request: BuildRequestRow) {
  return { head: request.head_sha, base: request.merge_base, behind: await isBehind(db, request) };
}

/** The last fetch. A fetch that a lost runner began is begun again. */
function fetchIn(events: readonly { state: string; created_at: bigint }[]) {
  const at = events.findLastIndex(({ state }) => state === 'fetching');
  return {
    started_at: events[at]?.created_at ?? null,
    finished_at: at < 0 ? null : (events[at + 1]?.created_at ?? null),
  };
}
