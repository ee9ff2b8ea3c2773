import { sql, type SqlBool } from 'kysely';
import type { Database, Queries, Transaction } from '../db/open.ts';
import type { PolledRefsRow, PollRow, ProjectRow } from '../db/schema.ts';
import { nextDue, polls } from '../queue/due.ts';
import { randomName } from '../../shared/lib/random-name.ts';

/**
 * The account with the fewest running polls comes first. So an account with thousands of projects, or with unresponsive
 * hosts, uses only spare capacity. Polls per host are limited.
 */

const partOfHost = 1 / 4;
const partOfAccount = 3 / 4;
/** Polls considered for one response. */
const mostConsidered = 4096;

interface PollCapacity {
  holder: string;
  /** Set for an account-scoped runner. */
  boundAs?: bigint | undefined;
  room: number;
  most: number;
  claimMs: number;
}

export interface ClaimedPoll
  extends
    Pick<ProjectRow, 'id' | 'clone_url' | 'ssh_private_key' | 'forge_id' | 'forge_git_origin' | 'poll_interval'>,
    Pick<PollRow, 'failures'> {
  claim: string;
  digest: PolledRefsRow['digest'] | null;
}

type Polls = Pick<PollRow, 'project_id' | 'account_id' | 'host'>;

export function nextPollAt(db: Queries, boundAs: bigint | undefined): Promise<number> {
  const own = boundAs === undefined ? undefined : sql<SqlBool>`account_id in (${accountsOf(db, boundAs)})`;
  return nextDue(db, polls, own);
}

export async function claimPolls(db: Database, trx: Transaction, capacity: PollCapacity): Promise<ClaimedPoll[]> {
  const now = BigInt(Date.now());
  const chosen = choose(await underWay(trx, capacity.holder, now), await duePolls(trx, capacity, now), capacity);
  if (chosen.length === 0) return [];
  const free = trx
    .selectFrom('polls')
    .select('project_id')
    .where('project_id', 'in', chosen)
    .where('next_poll_at', '<=', now)
    .orderBy('project_id');
  const taken = (await db.skipLocked(free, 'polls').execute()).map(({ project_id: id }) => id);
  if (taken.length === 0) return [];
  const claim = randomName();
  const wait = BigInt(capacity.claimMs);
  await trx
    .updateTable('polls')
    .set({ claim, holder: capacity.holder, next_poll_at: now + wait, wait_ms: wait })
    .where('project_id', 'in', taken)
    .execute();
  const claimed = await trx
    .selectFrom('polls')
    .innerJoin('projects', 'projects.id', 'polls.project_id')
    .leftJoin('polled_refs', 'polled_refs.project_id', 'polls.project_id')
    .select(['projects.id', 'projects.clone_url', 'projects.ssh_private_key', 'projects.poll_interval'])
    .select(['projects.forge_id', 'projects.forge_git_origin', 'polls.failures', 'polled_refs.digest'])
    .where('polls.project_id', 'in', taken)
    .execute();
  return claimed.map((poll) => ({ ...poll, claim }));
}

export async function releasePollsOf(db: Database, trx: Transaction, holder: string): Promise<void> {
  await holdPolls(db, trx, (all) => all.where('holder', '=', holder));
  await trx
    .updateTable('polls')
    .set({ claim: null, holder: null, next_poll_at: BigInt(Date.now()), wait_ms: 0n })
    .where('holder', '=', holder)
    .execute();
}

/** Locks polls in a fixed order. An update would use its own order. */
export async function holdPolls(
  db: Database,
  trx: Transaction,
  which: (all: ReturnType<typeof pollsInOrder>) => ReturnType<typeof pollsInOrder>,
): Promise<void> {
  await db.locked(which(pollsInOrder(trx)), 'polls').execute();
}

function pollsInOrder(trx: Transaction) {
  return trx.selectFrom('polls').select('polls.project_id').orderBy('polls.project_id');
}

function accountsOf(db: Queries, runner: bigint) {
  return db.selectFrom('runner_accounts').select('account_id').where('runner_id', '=', runner);
}

function underWay(trx: Transaction, holder: string, now: bigint): Promise<Polls[]> {
  return trx
    .selectFrom('polls')
    .select(['project_id', 'account_id', 'host'])
    .where('holder', '=', holder)
    .where('next_poll_at', '>', now)
    .execute();
}

function duePolls(trx: Transaction, { boundAs, most }: PollCapacity, now: bigint): Promise<Polls[]> {
  const due = trx
    .selectFrom('polls')
    .select(['project_id', 'account_id', 'host', 'next_poll_at'])
    .select(sql<bigint>`row_number() over (partition by account_id order by next_poll_at)`.as('place'))
    .where('next_poll_at', '<=', now)
    .$if(boundAs !== undefined, (query) => query.where('account_id', 'in', accountsOf(trx, boundAs ?? 0n)));
  return trx
    .selectFrom(due.as('due'))
    .select(['project_id', 'account_id', 'host'])
    .where('place', '<=', BigInt(most))
    .orderBy('place')
    .orderBy('next_poll_at')
    .limit(mostConsidered)
    .execute();
}

function choose(busy: readonly Polls[], due: readonly Polls[], { room, most }: PollCapacity): bigint[] {
  const atHost = count(busy, ({ host }) => host);
  const ofAccount = count(busy, ({ account_id: account }) => account);
  const ranks = new Map<bigint, number>(ofAccount);
  const inOrder = due
    .map((poll) => {
      const rank = ranks.get(poll.account_id) ?? 0;
      ranks.set(poll.account_id, rank + 1);
      return { poll, place: rank };
    })
    .sort((one, other) => one.place - other.place);
  const chosen: bigint[] = [];
  for (const { poll } of inOrder) {
    if (chosen.length === room) break;
    const [here, own] = [atHost.get(poll.host) ?? 0, ofAccount.get(poll.account_id) ?? 0];
    if (here >= most * partOfHost || own >= most * partOfAccount) continue;
    atHost.set(poll.host, here + 1);
    ofAccount.set(poll.account_id, own + 1);
    chosen.push(poll.project_id);
  }
  return chosen;
}

function count<Key>(polls: readonly Polls[], key: (poll: Polls) => Key): Map<Key, number> {
  return new Map(Array.from(Map.groupBy(polls, key), ([name, those]) => [name, those.length]));
}
