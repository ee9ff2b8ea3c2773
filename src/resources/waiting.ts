import { whyWaiting, type WhyWaiting } from '../auth/runner-visits.ts';
import type { Database } from '../db/open.ts';
import * as schema from '../http/schema.ts';
import type { JsonSchema } from '../http/schema.ts';

/** An answer with the field `waiting_reason`. */
export function withReason(answer: JsonSchema): JsonSchema {
  const reason = { ...schema.string, description: 'Why it waits, in words; blank when it does not wait' };
  return schema.record({ ...answer.properties, waiting_reason: reason });
}

/** An answer that has the field only where no runner can take the work. */
export function orInVain(answer: JsonSchema): JsonSchema {
  const reason = { ...schema.string, description: 'Why no runner can take it; left out where one can' };
  return schema.withOptional(answer, { waiting_reason: reason });
}

interface Waiting {
  id: bigint;
}

/** Work of an account that may be waiting: records whose identifiers are the subjects of jobs. */
interface Work<Shown> {
  /** The account whose runners would take it. */
  account: bigint;
  rows: readonly Shown[];
  /** Whether a record can be waiting at all. For others nothing is queried. */
  mayWait: (row: Shown) => boolean;
}

/** For each row, why it waits. The queries are the same for one row and for many, and none where no row may wait. */
export async function reasonsToWait<Shown extends Waiting>(
  database: Database,
  work: Work<Shown>,
): Promise<(row: Waiting) => { waiting_reason: string }> {
  const reasons = await reasonsFor(database, work, true);
  return ({ id }) => ({ waiting_reason: reasons.get(id) ?? '' });
}

/** For each row that waits without a possible runner, the reason. */
export async function reasonsInVain<Shown extends Waiting>(
  database: Database,
  work: Work<Shown>,
): Promise<(row: Waiting) => { waiting_reason?: string }> {
  const reasons = await reasonsFor(database, work, false);
  return ({ id }) => {
    const reason = reasons.get(id);
    return reason === undefined ? {} : { waiting_reason: reason };
  };
}

async function reasonsFor<Shown extends Waiting>(
  database: Database,
  { account, rows, mayWait }: Work<Shown>,
  isAny: boolean,
): Promise<ReadonlyMap<bigint, string>> {
  const reasons = new Map<bigint, string>();
  const ids = rows.filter(mayWait).map(({ id }) => id);
  if (ids.length === 0) return reasons;
  const why = await whyWaiting(database, account);
  for (const [id, jobs] of Map.groupBy(await inTheQueue(database, ids), (job) => job.id)) {
    const waiting = jobs.filter(({ claim }) => claim === null);
    const inVain = waiting.map(({ tags }) => why.nobody(tags)).find((reason) => reason !== undefined);
    // A request of which something is under way does not wait, unless the rest of it would wait for ever.
    const reason = inVain ?? (isAny && waiting.length === jobs.length ? inTurn(why, waiting[0]) : undefined);
    if (reason !== undefined) reasons.set(id, reason);
  }
  return reasons;
}

function inTurn(why: WhyWaiting, job: QueuedJob | undefined): string | undefined {
  if (!job) return undefined;
  // A build is put off while a dependency of its suite is compiled.
  return job.run_after > BigInt(Date.now()) ? 'waits for a dependency to be compiled' : why.busy(job.tags, job.kind);
}

interface QueuedJob {
  /** The record that it is for. */
  id: bigint;
  kind: string;
  tags: string;
  claim: string | null;
  run_after: bigint;
}

/** The work that is in the queue for these records; of a request that may be its builds. */
async function inTheQueue({ read }: Database, ids: readonly bigint[]): Promise<QueuedJob[]> {
  const jobs = read.selectFrom('jobs').select(['jobs.tags', 'jobs.kind', 'jobs.claim', 'jobs.run_after']);
  const own = await jobs.select('jobs.subject_id as id').where('jobs.subject_id', 'in', ids).execute();
  const ofBuilds = await jobs
    .innerJoin('builds', 'builds.id', 'jobs.subject_id')
    .select('builds.build_request_id as id')
    .where('builds.build_request_id', 'in', ids)
    .execute();
  return [...own, ...ofBuilds];
}
