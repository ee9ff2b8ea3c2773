import { sql } from 'kysely';
import type { Database, Queries, Transaction } from '../db/open.ts';
import type { PolledRefsRow, PollRow, ProjectRow } from '../db/schema.ts';
import { randomName } from '../lib/random-name.ts';

/**
 * Which looks a runner gets. Those of an account that has the fewest under way come first, so one with thousands of
 * projects, or with hosts that never answer, takes up what is left by the others; and of one host only so many are
 * looked at at once. What is under way at a runner is counted, not remembered: any server can answer it.
 */

/** Parts of what a runner takes at a time: the rest is for others. */
const partOfHost = 1 / 4;
const partOfAccount = 3 / 4;
/** More are not looked at for one answer. */
const mostOffered = 4096;

interface Asking {
  holder: string;
  /** The runner's identifier, where it works for some accounts alone. */
  boundAs?: bigint | undefined;
  /** How many more it takes, and how many it takes in all. */
  room: number;
  most: number;
  /** For so long they are the runner's. */
  claimMs: number;
}

export interface ClaimedLook
  extends Pick<ProjectRow, 'id' | 'repository_url' | 'ssh_private_key' | 'poll_interval'>, Pick<PollRow, 'failures'> {
  claim: string;
  digest: PolledRefsRow['digest'] | null;
}

type Polls = Pick<PollRow, 'project_id' | 'account_id' | 'host'>;

/** When the next look is due that this runner could have; undefined where nothing is polled. */
export async function nextLookAt(db: Queries, boundAs: bigint | undefined): Promise<number | undefined> {
  const next = await db
    .selectFrom('polls')
    .select('next_look_at')
    .$if(boundAs !== undefined, (query) => query.where('account_id', 'in', accountsOf(db, boundAs ?? 0n)))
    .orderBy('next_look_at')
    .limit(1)
    .executeTakeFirst();
  return next && Number(next.next_look_at);
}

/** Takes looks that are due, under one claim. */
export async function claimLooks(db: Database, trx: Transaction, asking: Asking): Promise<ClaimedLook[]> {
  const now = BigInt(Date.now());
  const chosen = choose(await underWay(trx, asking.holder, now), await offered(trx, asking, now), asking);
  if (chosen.length === 0) return [];
  const free = trx
    .selectFrom('polls')
    .select('project_id')
    .where('project_id', 'in', chosen)
    .where('next_look_at', '<=', now)
    .orderBy('project_id');
  const taken = (await db.skipLocked(free, 'polls').execute()).map(({ project_id: id }) => id);
  if (taken.length === 0) return [];
  const claim = randomName();
  const wait = BigInt(asking.claimMs);
  await trx
    .updateTable('polls')
    .set({ claim, holder: asking.holder, next_look_at: now + wait, wait_ms: wait })
    .where('project_id', 'in', taken)
    .execute();
  const looks = await trx
    .selectFrom('polls')
    .innerJoin('projects', 'projects.id', 'polls.project_id')
    .leftJoin('polled_refs', 'polled_refs.project_id', 'polls.project_id')
    .select(['projects.id', 'projects.repository_url', 'projects.ssh_private_key', 'projects.poll_interval'])
    .select(['polls.failures', 'polled_refs.digest'])
    .where('polls.project_id', 'in', taken)
    .execute();
  return looks.map((look) => ({ ...look, claim }));
}

/** Everything that a runner had is lost: somebody else looks. */
export async function freeLooksOf(trx: Transaction, holder: string): Promise<void> {
  await trx
    .updateTable('polls')
    .set({ claim: null, holder: null, next_look_at: BigInt(Date.now()), wait_ms: 0n })
    .where('holder', '=', holder)
    .execute();
}

function accountsOf(db: Queries, runner: bigint) {
  return db.selectFrom('runner_accounts').select('account_id').where('runner_id', '=', runner);
}

/** What a runner has at the moment; what it has had for too long, it has no more. */
function underWay(trx: Transaction, holder: string, now: bigint): Promise<Polls[]> {
  return trx
    .selectFrom('polls')
    .select(['project_id', 'account_id', 'host'])
    .where('holder', '=', holder)
    .where('next_look_at', '>', now)
    .execute();
}

/** What is due, of each account as much as it could get. */
function offered(trx: Transaction, { boundAs, most }: Asking, now: bigint): Promise<Polls[]> {
  const due = trx
    .selectFrom('polls')
    .select(['project_id', 'account_id', 'host', 'next_look_at'])
    .select(sql<bigint>`row_number() over (partition by account_id order by next_look_at)`.as('place'))
    .where('next_look_at', '<=', now)
    .$if(boundAs !== undefined, (query) => query.where('account_id', 'in', accountsOf(trx, boundAs ?? 0n)));
  return trx
    .selectFrom(due.as('due'))
    .select(['project_id', 'account_id', 'host'])
    .where('place', '<=', BigInt(most))
    .orderBy('place')
    .orderBy('next_look_at')
    .limit(mostOffered)
    .execute();
}

/** Those whose account has the fewest, one after the other, as far as hosts and accounts have room. */
function choose(busy: readonly Polls[], due: readonly Polls[], { room, most }: Asking): bigint[] {
  const atHost = count(busy, ({ host }) => host);
  const ofAccount = count(busy, ({ account_id: account }) => account);
  const places = new Map<bigint, number>(ofAccount);
  const inTurn = due
    .map((poll) => {
      const place = places.get(poll.account_id) ?? 0;
      places.set(poll.account_id, place + 1);
      return { poll, place };
    })
    .sort((one, other) => one.place - other.place);
  const chosen: bigint[] = [];
  for (const { poll } of inTurn) {
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
