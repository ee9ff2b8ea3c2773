import { sql, type RawBuilder, type SqlBool } from 'kysely';
import type { Database, Queries } from '../db/open.ts';
import { fetchKinds } from '../../shared/domain/runner-slots.ts';
import { laneIsFree } from './lanes.ts';

/**
 * The oldest job of an account that can begin now, as a subquery. It follows the index of waiting jobs, which is sorted
 * by tags, account and age, so it reads one row, however many jobs wait. Fetches and all others have an index each. The
 * first row is asked for instead of "exists", which PostgreSQL would turn into a join over all waiting jobs.
 *
 * A runner without tags gets jobs without tags. For a runner with tags, each combination of tags that waits in the
 * account is visited once, by jumping from one to the next in an index of their own; of those that the runner has, the
 * oldest job is taken. So jobs that the runner may not have cost one lookup for each combination, and not one for each
 * job.
 */
export interface Search {
  queries: Queries;
  kinds: readonly string[];
  account: RawBuilder<unknown>;
  now: bigint;
  /** The runner's tags; empty for a runner without tags. */
  tags: string;
  /** The runner's location, if it keeps files: jobs that prefer it need not be due. */
  location?: string | undefined;
  /** Whether it wants no others. */
  isLeaving?: boolean | undefined;
}

type Idioms = Pick<Database, 'isExactly' | 'isBehind' | 'isSubset'>;

export function oldestWaiting(db: Idioms, search: Search): RawBuilder<bigint | null> {
  const { account, tags } = search;
  if (tags === '') return sql`${oldestWith(db, search, noTags)}`;
  const sets = sql.ref<string>('sets.tags');
  return sql<bigint | null>`
    select min(heads.head) from (
      with recursive sets(tags) as (
        select ''
        union all
        select (
          select further.tags from jobs as further
          where ${db.isBehind({ column: 'further.account_id', value: account }, { column: 'further.tags', value: sets })}
            and further.claim is null and further.tags > ''
          order by further.account_id, further.tags limit 1
        ) from sets where sets.tags is not null
      )
      select (${oldestWith(db, search, sets)}) as head from sets
      where sets.tags is not null and ${db.isSubset(sets, tags)}
    ) as heads`;
}

/** The same, of the jobs that need exactly these tags. */
export function oldestWith(db: Idioms, { queries, kinds, account, now, ...runner }: Search, tags: RawBuilder<string>) {
  return queries
    .selectFrom('jobs as waiting')
    .select('waiting.id')
    .where('waiting.tags', '=', tags)
    .where(db.isExactly('waiting.account_id', account))
    .where('waiting.claim', 'is', null)
    .where('waiting.kind', 'in', literals(kinds))
    .where(ofPlace(kinds))
    .where(isDue('waiting', now, runner))
    .where(laneIsFree('waiting'))
    .orderBy('waiting.tags')
    .orderBy('waiting.account_id')
    .orderBy('waiting.run_after')
    .orderBy('waiting.id')
    .limit(1);
}

/**
 * Whether a job may begin: its time has come, or it prefers this location. As long as none does, the search ends at the
 * jobs that are due, and does not read those that are put off.
 */
export function isDue(
  table: string,
  now: bigint,
  { location, isLeaving }: Pick<Search, 'location' | 'isLeaving'>,
): RawBuilder<SqlBool> {
  const time = sql.ref(`${table}.run_after`);
  const isInTime = sql<SqlBool>`${time} <= ${now}`;
  const isHere = sql<SqlBool>`${sql.ref(`${table}.location`)} = ${location}`;
  if (isLeaving) return isHere;
  if (location === undefined) return isInTime;
  const last = sql`
    select max(here.run_after) from jobs as here
    where here.location = ${location} and here.claim is null and here.run_after > ${now}`;
  return sql<SqlBool>`${time} <= coalesce((${last}), ${now}) and (${isInTime} or ${isHere})`;
}

const noTags = sql.lit('');

/** Kinds as they stand in a statement. */
export function literals(kinds: readonly string[]): RawBuilder<string>[] {
  return kinds.map((kind) => sql.lit(kind));
}

/** Which of the two indexes has jobs of these kinds, in its own words: otherwise SQLite would not use it. */
function ofPlace(kinds: readonly string[]): RawBuilder<SqlBool> {
  const fetches = kinds.filter((kind) => fetchKinds.includes(kind));
  if (fetches.length === kinds.length) return sql`waiting.kind in (${sql.join(literals(fetchKinds))})`;
  return fetches.length === 0 ? sql`waiting.kind not in (${sql.join(literals(fetchKinds))})` : sql`true`;
}
