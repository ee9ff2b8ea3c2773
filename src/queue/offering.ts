import { sql } from 'kysely';
import type { Database, Transaction } from '../db/open.ts';
import { prepared } from '../db/prepared.ts';
import type { JobRow } from '../db/schema.ts';
import { carriedBy } from '../lib/carried.ts';
import type { Taking } from './claiming.ts';
import { forKinds } from './statements.ts';
import { oldestWaiting } from './waiting.ts';

/**
 * New jobs are offered to those who wait for work, in the transaction that brings the jobs: then the job and its claim
 * are one commit. On SQLite, where transactions take turns, a claim in a transaction of its own shares the commit
 * anyway (db/announcements.ts), so nothing is offered there.
 *
 * A job that is taken this way is a row that nobody else can see yet. So the claim waits for nobody, and the order of
 * locks (lifecycle/ledger.ts) is kept, whatever the transaction holds already.
 */

/** Takes one of the new jobs of a transaction, or none; returns whether it did. */
export type Taker = (trx: Transaction, jobs: readonly JobRow[]) => Promise<boolean>;

/** Announced when there may be a job to claim. */
export const queueTopic = 'queue';

const takersOn = carriedBy<Database, Set<Taker>>(() => new Set());
const stateOf = carriedBy<Transaction, Offering>(() => ({ offered: undefined, hasClaimed: false }));

interface Offering {
  /** New jobs of the transaction. */
  offered: JobRow[] | undefined;
  hasClaimed: boolean;
}

/** From now on new jobs on this database are offered to this taker first, until the returned function is called. */
export function takeOffers(db: Database, taker: Taker): () => void {
  const all = takersOn(db).add(taker);
  return () => all.delete(taker);
}

/** The transaction has made a claim for itself: a transaction claims once. */
export function claimsItself(trx: Transaction): void {
  stateOf(trx).hasClaimed = true;
}

/** Offers new jobs to who waits here. Those that nobody takes are announced. */
export async function offer(db: Database, trx: Transaction, jobs: readonly JobRow[]): Promise<void> {
  const announce = (): Promise<void> => db.announce(trx, queueTopic);
  const all = takersOn(db);
  if (db.inTurns || all.size === 0) return announce();
  const state = stateOf(trx);
  if (state.offered) {
    state.offered.push(...jobs);
    return undefined;
  }
  const offered = [...jobs];
  state.offered = offered;
  const offerThem = async (): Promise<void> => {
    let isTaken = false;
    for (const take of state.hasClaimed ? [] : all) isTaken ||= await take(trx, offered);
    if (!isTaken || offered.length > 1) await announce();
  };
  db.addAtEnd(trx, offerThem, announce);
  return undefined;
}

interface Values {
  id: bigint;
  account: bigint;
  now: bigint;
  claim: string;
  holder: string;
  ms: bigint;
  turn: bigint;
  tags: string;
}

/**
 * The account's turn passes as with any other claim, unless another claim holds it. The job is not taken if another one
 * waits that the same runner may have: then accounts have to be compared.
 */
const takes = forKinds((kinds) => {
  const make = (hasTags: boolean) =>
    prepared<Values, JobRow>((db, value) => {
      const account = sql`others.account_id`;
      const search = { kinds, account, now: value('now'), tags: hasTags ? value('tags') : undefined };
      return {
        compile: () =>
          sql<JobRow>`
            with held as materialized (
              select account_id from queue_turns where account_id = ${value('account')} for no key update skip locked
            ), taken as (
              update jobs
              set claim = ${value('claim')}, holder = ${value('holder')}, tries = jobs.tries + 1,
                claimed_until = (extract(epoch from clock_timestamp()) * 1000)::bigint + ${value('ms')}
              where jobs.id = ${value('id')} and not exists (
                select 1 from queue_turns as others where (${oldestWaiting('postgres', search)}) <> ${value('id')}
              ) returning jobs.*
            ), passed as (
              update queue_turns set turn = ${value('turn')} from held
              where queue_turns.account_id = held.account_id and exists (select 1 from taken)
            )
            select * from taken`.compile(db),
      };
    });
  return { plain: make(false), tagged: make(true) };
});

/** Claims a job that the transaction itself has made; false when another job has to be considered first. */
export async function takeNew(
  trx: Transaction,
  { id, account_id: account }: JobRow,
  { kinds, tags = '', name: claim, holder, seconds, turn }: Omit<Taking, 'mostRunning' | 'boundAs'>,
): Promise<boolean> {
  const take = takes(kinds)[tags === '' ? 'plain' : 'tagged'];
  const clock = { now: BigInt(Date.now()), ms: BigInt(seconds * 1000) };
  return (await take(trx, { id, account, claim, holder, turn, tags, ...clock })).length > 0;
}
