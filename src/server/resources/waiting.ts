import { whyWaiting, type WhyWaiting } from '../auth/runner-heartbeats.ts';
import type { Call } from '../api/call.ts';
import type { Queries } from '../db/open.ts';

interface Subject {
  id: bigint;
}

/** Rows whose IDs are the subjects of jobs. */
interface Work<Shown> {
  /** The account whose runners would take the jobs. */
  account: bigint;
  rows: readonly Shown[];
  /** If false for all rows, no query runs. */
  mayWait: (row: Shown) => boolean;
  /** The builds' column that names the record, if builds can be part of its work. */
  builds?: 'build_request_id' | 'deploy_id';
}

/** A writing call reads in its own transaction, because only that contains its new jobs. */
type Reading = Pick<Call, 'database'> & { db: Queries };

/** The number of queries does not depend on the number of rows. If no row may wait, no query runs. */
export async function reasonsToWait<Shown extends Subject>(
  call: Reading,
  work: Work<Shown>,
): Promise<(row: Subject) => string> {
  const reasons = await reasonsFor(call, work, true);
  return ({ id }) => reasons.get(id) ?? '';
}

/** Reasons only for rows that no runner can take. */
export async function reasonsInVain<Shown extends Subject>(
  call: Reading,
  work: Work<Shown>,
): Promise<(row: Subject) => { waiting_reason?: string }> {
  const reasons = await reasonsFor(call, work, false);
  return ({ id }) => {
    const reason = reasons.get(id);
    return reason === undefined ? {} : { waiting_reason: reason };
  };
}

async function reasonsFor<Shown extends Subject>(
  { database, db }: Reading,
  { account, rows, mayWait, builds }: Work<Shown>,
  isAny: boolean,
): Promise<ReadonlyMap<bigint, string>> {
  const reasons = new Map<bigint, string>();
  const ids = rows.filter(mayWait).map(({ id }) => id);
  const queued = ids.length === 0 ? [] : await inTheQueue(db, ids, builds);
  if (queued.every(({ claim }) => claim !== null)) return reasons;
  const why = await whyWaiting(database, account, db);
  for (const [id, jobs] of Map.groupBy(queued, (job) => job.id)) {
    const waiting = jobs.filter(({ claim }) => claim === null);
    const inVain = waiting.map(({ tags }) => why.nobody(tags)).find((reason) => reason !== undefined);
    // A request with an active job counts as waiting only if no runner can take the rest.
    const reason = inVain ?? (isAny && waiting.length === jobs.length ? inTurn(why, waiting[0]) : undefined);
    if (reason !== undefined) reasons.set(id, reason);
  }
  return reasons;
}

function inTurn(why: WhyWaiting, job: QueuedJob | undefined): string | undefined {
  if (!job) return undefined;
  if (job.run_after <= BigInt(Date.now())) return why.busy(job.tags, job.kind);
  if (job.tried_by !== null && job.state === 'enqueued') return 'waits for its next try';
  if (job.location !== null) return 'waits for the runner with the files of another suite';
  // A build that has begun is postponed only while blob storage is unreachable.
  return job.state === 'running'
    ? 'waits for blob storage, which is unreachable'
    : 'waits for a dependency to be compiled';
}

interface QueuedJob {
  id: bigint;
  kind: string;
  tags: string;
  claim: string | null;
  run_after: bigint;
  location: string | null;
  tried_by: string | null;
  state: string | null;
}

async function inTheQueue(db: Queries, ids: readonly bigint[], builds: Work<never>['builds']): Promise<QueuedJob[]> {
  const jobs = db
    .selectFrom('jobs')
    .leftJoin('builds', 'builds.id', 'jobs.subject_id')
    .select(['jobs.tags', 'jobs.kind', 'jobs.claim', 'jobs.run_after', 'jobs.location', 'builds.build_state as state'])
    .select('jobs.tried_by');
  const own = jobs.select('jobs.subject_id as id').where('jobs.subject_id', 'in', ids);
  if (builds === undefined) return own.execute();
  const ofBuilds = jobs.select(`builds.${builds} as id`).where(`builds.${builds}`, 'in', ids);
  return own.unionAll(ofBuilds.$narrowType<{ id: bigint }>()).execute();
}
