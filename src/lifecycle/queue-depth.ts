import { sql } from 'kysely';
import type { Queries } from '../db/open.ts';
import { timeOfId } from '../lib/ids.ts';
import { hasTags } from '../lib/tags.ts';

/**
 * How much work there is for runners. What waits is what a runner could begin now: work that was put off, or waits for
 * another deploy to the same branch, is not counted before its time, because a runner that is started for it would find
 * nothing to do.
 */
interface Group {
  account: bigint;
  tags: string;
  waiting: number;
  running: number;
  /** When the oldest of those that wait was asked for, in milliseconds since 1970; undefined when none waits. */
  since: number | undefined;
}

/** Jobs of these kinds are done by servers. */
const ofServers = ['deliver', 'pack_log'].map((kind) => sql.lit(kind));

export async function workByTags(db: Queries): Promise<Group[]> {
  const now = BigInt(Date.now());
  const rows = await db
    .selectFrom('jobs')
    .select((of) => [
      'account_id',
      'tags',
      of.fn.count<bigint>('claim').as('running'),
      of.fn.countAll<bigint>().as('all'),
      // A job that somebody waits for has a negative number.
      sql<bigint | null>`min(case when claim is null then abs(id) end)`.as('oldest'),
    ])
    .where('kind', 'not in', ofServers)
    .where((where) => where.or([where('claim', 'is not', null), where('run_after', '<=', now)]))
    .groupBy(['account_id', 'tags'])
    .execute();
  return rows.map(({ account_id: account, tags, running, all, oldest }) => ({
    account,
    tags,
    waiting: Number(all) - Number(running),
    running: Number(running),
    since: oldest === null ? undefined : timeOfId(oldest),
  }));
}

export interface WorkFor {
  /** The runner's tags, as one text. */
  tags: string;
  /** The accounts that the runner works for; undefined for all. */
  accounts: ReadonlySet<bigint> | undefined;
  /** An account has at most this many jobs under way; 0 for no limit. */
  mostRunning: number;
}

/** How many jobs a crowd of such runners could begin now. */
export function takeable(groups: readonly Group[], { tags, accounts, mostRunning }: WorkFor): number {
  let sum = 0;
  for (const [account, own] of Map.groupBy(groups, (group) => group.account)) {
    if (accounts && !accounts.has(account)) continue;
    const count = (of: (group: Group) => number): number => own.reduce((total, group) => total + of(group), 0);
    const waiting = count((group) => (hasTags(tags, group.tags) ? group.waiting : 0));
    const room = mostRunning > 0 ? Math.max(0, mostRunning - count(({ running }) => running)) : waiting;
    sum += Math.min(waiting, room);
  }
  return sum;
}
