import { sql, type RawBuilder, type SqlBool } from 'kysely';
import type { Database, Queries } from '../db/open.ts';
import { fetchKinds } from '../../shared/domain/runner-slots.ts';
import { laneIsFree } from './lanes.ts';

/**
 * An account's oldest job that can begin now. It follows an index by tags, account and age, one for fetches and one for
 * the rest, so it reads one row. It selects the first row, because PostgreSQL would turn "exists" into a join over all
 * waiting jobs.
 *
 * For a runner with tags, it jumps through an index over the account's combinations of waiting tags. So jobs that the
 * runner may not take cost one lookup per combination.
 */
export interface Search extends Serving {
  queries: Queries;
  account: RawBuilder<unknown>;
}

/** The jobs that a runner takes. */
export interface Serving {
  kinds: readonly string[];
  /** An account with this many running jobs is not served; 0 for no limit. */
  mostRunning?: number | undefined;
  /** An account-scoped runner: only jobs of its accounts. */
  boundAs?: bigint | undefined;
  /** The runner's tags as one text. */
  tags?: string | undefined;
  /** Jobs that prefer it need not be due. */
  location?: string | undefined;
  /** Only jobs that prefer the location. */
  isLeaving?: boolean | undefined;
  /** Whether the job `waiting` is left to this runner (tried.ts). */
  isLeftToIt?: RawBuilder<SqlBool> | undefined;
}

type Idioms = Pick<Database, 'isExactly' | 'isBehind' | 'isSubset'>;

export function oldestWaiting(db: Idioms, search: Search): RawBuilder<bigint | null> {
  const { account, tags = '' } = search;
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

export function oldestWith(db: Idioms, { queries, kinds, account, ...runner }: Search, tags: RawBuilder<string>) {
  return queries
    .selectFrom('jobs as waiting')
    .select('waiting.id')
    .where('waiting.tags', '=', tags)
    .where(db.isExactly('waiting.account_id', account))
    .where('waiting.claim', 'is', null)
    .where('waiting.kind', 'in', literals(kinds))
    .where(ofPlace(kinds))
    .where(isDue('waiting', runner))
    .where(laneIsFree('waiting'))
    .orderBy('waiting.tags')
    .orderBy('waiting.account_id')
    .orderBy('waiting.run_after')
    .orderBy('waiting.id')
    .limit(1);
}

/** If no job prefers this location, the search ends at the due jobs and does not read postponed ones. */
export function isDue(
  table: string,
  { isLeftToIt, ...runner }: Pick<Serving, 'location' | 'isLeaving' | 'isLeftToIt'>,
): RawBuilder<SqlBool> {
  const isTimely = isInTimeFor(table, runner);
  return isLeftToIt ? sql<SqlBool>`${isTimely} and ${isLeftToIt}` : isTimely;
}

function isInTimeFor(
  table: string,
  { location, isLeaving }: Pick<Serving, 'location' | 'isLeaving'>,
): RawBuilder<SqlBool> {
  const now = BigInt(Date.now());
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

export function literals(kinds: readonly string[]): RawBuilder<string>[] {
  return kinds.map((kind) => sql.lit(kind));
}

/** The condition of the index with these kinds, in its exact words: otherwise SQLite would not use it. */
function ofPlace(kinds: readonly string[]): RawBuilder<SqlBool> {
  const fetches = kinds.filter((kind) => fetchKinds.includes(kind));
  if (fetches.length === kinds.length) return sql`waiting.kind in (${sql.join(literals(fetchKinds))})`;
  return fetches.length === 0 ? sql`waiting.kind not in (${sql.join(literals(fetchKinds))})` : sql`true`;
}
