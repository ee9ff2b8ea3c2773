import { sql, type RawBuilder, type SqlBool } from 'kysely';
import type { Database, Queries } from '../db/open.ts';
import { fetchKinds } from '../../shared/domain/runner-slots.ts';
import { laneIsFree } from './lanes.ts';

/**
 * Whether an account has a job that can begin now: the oldest one. It follows an index by tags, account and age, one for fetches and one for
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
  /** The kinds that count as running jobs; by default the same. */
  counted?: readonly string[] | undefined;
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
  const { tags = '' } = search;
  if (tags === '') return sql`${oldestWith(db, search, noTags)}`;
  const sets = sql.ref<string>('sets.tags');
  return sql<bigint | null>`
    select min(heads.head) from (
      ${waitingSets(db, search)}
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

/**
 * The highest priority of an account's jobs with these tags that can begin now, only below `below` if that is set. It
 * jumps from one priority to the next below it, and the limit ends it at the first that fits: databases return the rows
 * of a recursion as they are found.
 */
export function highestWaiting(
  search: Search,
  { tags, below }: { tags: RawBuilder<string>; below?: number | undefined },
): RawBuilder<number | null> {
  const level = sql.ref<number>('levels.priority');
  const first = below === undefined ? undefined : sql.lit(below);
  return sql<number | null>`(
    with recursive levels(priority) as (
      select (${nextLevel(search, tags, first)})
      union all
      select (${nextLevel(search, tags, level)}) from levels where levels.priority is not null
    )
    select levels.priority from levels
    where levels.priority is not null and (${oldestOf(search, { tags, priority: level })}) is not null
    limit 1
  )`;
}

function nextLevel({ queries, kinds, account }: Search, tags: RawBuilder<string>, below?: RawBuilder<number>) {
  return queries
    .selectFrom('jobs as waiting')
    .select('waiting.priority')
    .where('waiting.tags', '=', tags)
    .where('waiting.account_id', '=', account as RawBuilder<bigint>)
    .where('waiting.claim', 'is', null)
    .where(ofPlace(kinds))
    .$if(below !== undefined, (query) => query.where('waiting.priority', '<', below ?? sql.lit(0)))
    .orderBy('waiting.priority', 'desc')
    .limit(1);
}

/** An account's oldest job with these tags and this priority that can begin now. */
export function oldestOf(
  { queries, kinds, account, ...runner }: Search,
  { tags, priority }: { tags: RawBuilder<string>; priority: RawBuilder<number | null> },
) {
  return queries
    .selectFrom('jobs as waiting')
    .select('waiting.id')
    .where('waiting.tags', '=', tags)
    .where('waiting.account_id', '=', account as RawBuilder<bigint>)
    .where('waiting.claim', 'is', null)
    .where('waiting.kind', 'in', literals(kinds))
    .where(ofPlace(kinds))
    .where('waiting.priority', '=', priority as RawBuilder<number>)
    .where(isDue('waiting', runner))
    .where(laneIsFree('waiting'))
    .orderBy('waiting.run_after')
    .orderBy('waiting.id')
    .limit(1);
}

/** The tags and the priority of an account's next job for a runner with tags: the highest priority, then the oldest. */
export function nextTags(db: Idioms, search: Search): RawBuilder<{ tags: string; priority: number }> {
  const sets = sql.ref<string>('sets.tags');
  const [tags, priority] = [sql.ref<string>('best.tags'), sql.ref<number>('best.priority')];
  return sql`
    ${waitingSets(db, search)}
    select best.tags, best.priority from (
      select sets.tags, ${highestWaiting(search, { tags: sets })} as priority from sets
      where sets.tags is not null and ${db.isSubset(sets, search.tags ?? '')}
    ) as best
    where best.priority is not null
    order by best.priority desc, (${oldestOf(search, { tags, priority })})
    limit 1`;
}

/** The account's combinations of waiting tags. */
function waitingSets(db: Idioms, { account }: Search): RawBuilder<unknown> {
  const sets = sql.ref<string>('sets.tags');
  return sql`with recursive sets(tags) as (
    select ''
    union all
    select (
      select further.tags from jobs as further
      where ${db.isBehind({ column: 'further.account_id', value: account }, { column: 'further.tags', value: sets })}
        and further.claim is null and further.tags > ''
      order by further.account_id, further.tags limit 1
    ) from sets where sets.tags is not null
  )`;
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
