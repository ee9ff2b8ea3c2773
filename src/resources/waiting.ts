import { reasonsByTags } from '../auth/runner-visits.ts';
import type { Database } from '../db/open.ts';
import * as schema from '../http/schema.ts';
import type { JsonSchema } from '../http/schema.ts';

/** An answer with an additional field `waiting_reason`, present only when no runner can take the work. */
export function orWaiting(answer: JsonSchema): JsonSchema {
  return { ...answer, properties: { ...answer.properties, waiting_reason: schema.string } };
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

/**
 * For each row that waits without a possible runner, the reason. While the account has a working runner, this takes one
 * query, and none where no row may wait.
 */
export async function reasonsToWait<Shown extends Waiting>(
  database: Database,
  { account, rows, mayWait }: Work<Shown>,
): Promise<(row: Waiting) => { waiting_reason?: string }> {
  const ids = rows.filter(mayWait).map(({ id }) => id);
  const why = ids.length === 0 ? undefined : await reasonsByTags(database, account);
  if (why === undefined) return () => ({});
  const reasons = new Map<bigint, string>();
  for (const { id, tags, kind } of await inTheQueue(database, ids)) {
    const reason = why(tags, kind);
    if (reason !== undefined) reasons.set(id, reason);
  }
  return ({ id }) => {
    const reason = reasons.get(id);
    return reason === undefined ? {} : { waiting_reason: reason };
  };
}

/**
 * Of these records, those that have work in the queue which nobody has begun, with its kind and the tags that it needs; of a request
 * that may be its builds.
 */
async function inTheQueue(
  { read }: Database,
  ids: readonly bigint[],
): Promise<{ id: bigint; tags: string; kind: string }[]> {
  const unclaimed = read.selectFrom('jobs').select(['jobs.tags', 'jobs.kind']).where('jobs.claim', 'is', null);
  const own = await unclaimed.select('jobs.subject_id as id').where('jobs.subject_id', 'in', ids).execute();
  const ofBuilds = await unclaimed
    .innerJoin('builds', 'builds.id', 'jobs.subject_id')
    .select('builds.build_request_id as id')
    .where('builds.build_request_id', 'in', ids)
    .execute();
  return [...own, ...ofBuilds];
}
