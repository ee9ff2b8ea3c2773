import { sql, type RawBuilder } from 'kysely';
import type { Database } from '../db/open.ts';
import { fetchKinds } from '../lib/places.ts';
import { laneIsFree } from './lanes.ts';

/**
 * The oldest job of an account that can begin now, as a subquery. It follows the index of waiting jobs, which is sorted
 * by tags, account and age, so it reads one row, however many jobs wait. Fetches and all others have an index each. The first row is asked for instead of "exists",
 * which PostgreSQL would turn into a join over all waiting jobs.
 *
 * A runner without tags gets jobs without tags. For a runner with tags, each combination of tags that waits in the
 * account is visited once, by jumping from one to the next in an index of their own; of those that the runner has, the
 * oldest job is taken. So jobs that the runner may not have cost one look for each combination, and not one for each
 * job.
 */
export interface Search {
  kinds: readonly string[];
  account: RawBuilder<unknown>;
  now: bigint;
  /** The runner's tags; undefined for a runner without tags. */
  tags: string | undefined;
}

type Dialect = Database['kind'];

export const noTags = sql.lit('');

export function oldestWaiting(dialect: Dialect, search: Search): RawBuilder<bigint | null> {
  const { account, tags } = search;
  if (tags === undefined) return oldestWith(dialect, search, noTags);
  const sets = sql.ref('sets.tags');
  return sql<bigint | null>`
    select min(heads.head) from (
      with recursive sets(tags) as (
        select ''
        union all
        select (
          select further.tags from jobs as further
          where ${isFurther(dialect, account, sets)} and further.claim is null and further.tags > ''
          order by further.account_id, further.tags limit 1
        ) from sets where sets.tags is not null
      )
      select (${oldestWith(dialect, search, sets)}) as head from sets
      where sets.tags is not null and ${areWithin(dialect, sets, tags)}
    ) as heads`;
}

/** The same, of the jobs that need exactly these tags. */
export function oldestWith(
  dialect: Dialect,
  { kinds, account, now }: Search,
  tags: RawBuilder<unknown>,
): RawBuilder<bigint | null> {
  return sql<bigint | null>`
    select waiting.id from jobs as waiting
    where waiting.tags = ${tags} and ${sameAccount(dialect, 'waiting', account)} and waiting.claim is null
      and waiting.kind in (${sql.join(literals(kinds))}) and ${ofPlace(kinds)} and waiting.run_after <= ${now} and ${laneIsFree('waiting')}
    order by waiting.tags, waiting.account_id, waiting.run_after, waiting.id limit 1`;
}

/** Kinds as they stand in a statement. */
export function literals(kinds: readonly string[]): RawBuilder<string>[] {
  return kinds.map((kind) => sql.lit(kind));
}

/** Which of the two indexes has jobs of these kinds, in its own words: otherwise SQLite would not use it. */
function ofPlace(kinds: readonly string[]): RawBuilder<boolean> {
  const fetches = kinds.filter((kind) => fetchKinds.includes(kind));
  if (fetches.length === kinds.length) return sql`waiting.kind in (${sql.join(literals(fetchKinds))})`;
  return fetches.length === 0 ? sql`waiting.kind not in (${sql.join(literals(fetchKinds))})` : sql`true`;
}

/**
 * With an equality, PostgreSQL may read the jobs of all accounts by age until it finds one of this account; SQLite needs
 * the equality.
 */
function sameAccount(dialect: Dialect, job: string, account: RawBuilder<unknown>): RawBuilder<boolean> {
  const own = sql.ref(`${job}.account_id`);
  return dialect === 'sqlite' ? sql`${own} = ${account}` : sql`${own} >= ${account} and ${own} <= ${account}`;
}

/** PostgreSQL begins at a place in an index that is given by two columns only if they are compared as a pair. */
function isFurther(dialect: Dialect, account: RawBuilder<unknown>, tags: RawBuilder<unknown>): RawBuilder<boolean> {
  if (dialect === 'sqlite') return sql`further.account_id = ${account} and further.tags > ${tags}`;
  return sql`(further.account_id, further.tags) > (${account}, ${tags}) and further.account_id <= ${account}`;
}

/** Whether all of these tags are among the runner's. A tag has no comma and no quote in it. */
function areWithin(dialect: Dialect, tags: RawBuilder<unknown>, own: string): RawBuilder<boolean> {
  if (dialect === 'postgres') return sql`string_to_array(${tags}, ',') <@ string_to_array(${own}, ',')`;
  return sql`(${tags} = '' or not exists (
    select 1 from json_each('["' || replace(${tags}, ',', '","') || '"]') as one
    where instr(',' || ${own} || ',', ',' || one.value || ',') = 0
  ))`;
}
