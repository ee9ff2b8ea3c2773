import { sql } from 'kysely';
import type { Queries } from '../db/open.ts';
import { timeOfId } from '../../shared/lib/ids.ts';
import { spareKind } from './reuse-checks.ts';
import { fetchKinds, slotKinds, type SlotKind } from '../../shared/domain/runner-slots.ts';
import { hasTags } from '../../shared/domain/tags.ts';

/**
 * Counts only jobs that a runner could begin now: a runner started for other jobs would find nothing to do. It counts
 * in indexes, because reading rows takes ten times as long. Fetches have their own index. The other index lacks kinds,
 * so the few jobs of servers, and builds that wait for a runner without other work, are counted separately and subtracted.
 */
interface Group {
  account: bigint;
  slot: SlotKind;
  tags: string;
  waiting: number;
  running: number;
}

/** Servers do these jobs, which need no tags. */
const ofServers = ['deliver', 'pack_log'].map((kind) => sql.lit(kind));
/** No runner is started for these. */
const uncounted = [...ofServers, sql.lit(spareKind)];
const fetches = sql.join(fetchKinds.map((kind) => sql.lit(kind)));
/** Repeats the indexes' conditions word for word. Otherwise the database would not use the indexes. */
const isOf = { builds: sql<boolean>`kind not in (${fetches})`, fetches: sql<boolean>`kind in (${fetches})` };

export async function workByTags(db: Queries): Promise<Group[]> {
  const now = BigInt(Date.now());
  const waiting = db.selectFrom('jobs').where('claim', 'is', null).where('run_after', '<=', now);
  const count = sql<bigint>`count(*)`.as('count');
  const counted = ['tags', 'account_id'] as const;
  const others = waiting
    .select([...counted, count])
    .where('kind', 'in', uncounted)
    .groupBy(counted);
  const left = new Map((await others.execute()).map((one) => [`${one.account_id} ${one.tags}`, Number(one.count)]));
  const running = db.selectFrom('jobs').where('claim', 'is not', null).where('kind', 'not in', ofServers);
  const groups: Group[] = [];
  for (const slot of slotKinds) {
    const own = new Map<string, Group>();
    const groupOf = ({ account_id: account, tags }: { account_id: bigint; tags: string }): Group => {
      const group = own.get(`${account} ${tags}`) ?? { account, slot, tags, waiting: 0, running: 0 };
      own.set(`${account} ${tags}`, group);
      return group;
    };
    const those = waiting.where(isOf[slot]);
    for (const one of await those
      .select([...counted, count])
      .groupBy(counted)
      .execute()) {
      const taken = slot === 'builds' ? (left.get(`${one.account_id} ${one.tags}`) ?? 0) : 0;
      groupOf(one).waiting = Math.max(0, Number(one.count) - taken); // the two queries see different moments
    }
    const begun = running.where(isOf[slot]).select([...counted, count]);
    for (const one of await begun.groupBy(counted).execute()) groupOf(one).running = Number(one.count);
    groups.push(...own.values());
  }
  return groups;
}

/** Includes postponed jobs. */
export async function waitingByTags(db: Queries): Promise<{ tags: string; count: number }[]> {
  const waiting = db.selectFrom('jobs').where('claim', 'is', null);
  const count = sql<bigint>`count(*)`.as('count');
  const all = await waiting.where(isOf.builds).select(['tags', count]).groupBy('tags').execute();
  const untagged = await waiting.where(isOf.fetches).select(count).executeTakeFirst();
  const others = await waiting.select(['tags', count]).where('kind', 'in', uncounted).groupBy('tags').execute();
  const counts = new Map(all.map(({ tags, count: some }) => [tags, Number(some)]));
  counts.set('', (counts.get('') ?? 0) + Number(untagged?.count));
  for (const { tags, count: some } of others) counts.set(tags, (counts.get(tags) ?? 0) - Number(some));
  return Array.from(counts, ([tags, some]) => ({ tags, count: some })).filter(({ count: some }) => some > 0);
}

/** Milliseconds since 1970. Walks from the oldest job on, because most jobs wait. */
export async function oldestWaiting(db: Queries, isDue = true): Promise<number | undefined> {
  const all = db.selectFrom('jobs').select('id').where('claim', 'is', null).where('kind', 'not in', uncounted);
  const waiting = isDue ? all.where('run_after', '<=', BigInt(Date.now())) : all;
  // Jobs that a user waits for have a negative number.
  const plain = await waiting.where('id', '>', 0n).orderBy('id').limit(1).executeTakeFirst();
  const awaited = await waiting.where('id', '<', 0n).orderBy('id', 'desc').limit(1).executeTakeFirst();
  const times = [plain, awaited].flatMap((job) => (job ? [timeOfId(job.id < 0n ? -job.id : job.id)] : []));
  return times.length === 0 ? undefined : Math.min(...times);
}

export interface WorkFor {
  /** The runner's tags as one text. */
  tags: string;
  accounts: ReadonlySet<bigint> | undefined;
  /** Limit of an account's running jobs in each kind of slot; 0 for none. */
  mostRunning: number;
}

export function takeable(groups: readonly Group[], { tags, accounts, mostRunning }: WorkFor): number {
  let sum = 0;
  for (const own of Map.groupBy(groups, ({ account, slot }) => `${account} ${slot}`).values()) {
    if (accounts && own.some(({ account }) => !accounts.has(account))) continue;
    const count = (of: (group: Group) => number): number => own.reduce((total, group) => total + of(group), 0);
    const waiting = count((group) => (hasTags(tags, group.tags) ? group.waiting : 0));
    const room = mostRunning > 0 ? Math.max(0, mostRunning - count(({ running }) => running)) : waiting;
    sum += Math.min(waiting, room);
  }
  return sum;
}
