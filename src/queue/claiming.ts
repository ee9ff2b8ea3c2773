import { sql, type RawBuilder } from 'kysely';
import type { Transaction } from '../db/open.ts';
import { prepared } from '../db/prepared.ts';
import type { JobRow } from '../db/schema.ts';
import { mostOf, type Serving } from './accounts.ts';
import { laneIsFree } from './lanes.ts';
import type { ClaimedJob } from './queue.ts';
import { forKinds } from './statements.ts';

/**
 * Claims where several servers make them at once, on PostgreSQL: which account is next, its oldest job, the claim on it
 * and the account's place behind the others, in one statement.
 *
 * Who claims holds the turn of the account it serves, so others who claim at the same moment pass over it and serve the
 * next one. Where no other waits, they take the account's next job all the same: nobody waits for anybody. Only where an
 * account may have so many under way and no more does it have to be one after the other. Then a claim counts only if
 * nobody has claimed for the account since its jobs were counted, which its turn shows, and who finds it held waits.
 */
export interface Taking extends Serving {
  name: string;
  holder: string;
  seconds: number;
  turn: bigint;
}

interface Values {
  now: bigint;
  most: bigint;
  runner: bigint;
  claim: string;
  holder: string;
  ms: bigint;
  turn: bigint;
}

type Value = <Name extends keyof Values>(name: Name) => Values[Name];

/** What was taken, if anything, the first of the accounts that something waits for, and how many there are. */
type Taken = (JobRow | Record<keyof JobRow, null>) & { first: bigint | null; accounts: bigint; is_more: boolean };

/** Where others hold the first accounts, the next ones are tried. */
const mostTried = 16;

const takes = forKinds((kinds) => {
  const make = (isBound: boolean, isBounded: boolean) =>
    prepared<Values, Taken>((db, value) => ({
      compile: () => statement(kinds, value, isBound, isBounded).compile(db),
    }));
  return { all: [make(false, false), make(false, true)], some: [make(true, false), make(true, true)] };
});

/** The job whose turn it is; `overtaken` when somebody else was quicker. */
export async function takeNext(
  trx: Transaction,
  { kinds, mostRunning = 0, boundAs, name, holder, seconds, turn }: Taking,
): Promise<ClaimedJob | 'overtaken' | undefined> {
  const isBounded = mostRunning > 0;
  const { all, some } = takes(kinds);
  const take = (boundAs === undefined ? all : some)[Number(isBounded)];
  if (!take) throw new Error('there is a statement for each');
  const clock = { now: BigInt(Date.now()), ms: BigInt(seconds * 1000) };
  const values = { ...clock, most: mostOf(mostRunning), runner: boundAs ?? 0n, claim: name, holder, turn };
  const [taken] = await take(trx, values);
  if (!taken || taken.first === null) return undefined;
  const { first, accounts, is_more: isMore, ...job } = taken;
  if (job.id === null) {
    // What waits for the one account there is, others are just taking. Were it more, it would have been found.
    if (!isBounded && accounts === 1n) return undefined;
    if (isBounded) await waitForTurn(trx, { account: first });
    return 'overtaken';
  }
  if (job.lane === null || (await isAlone(trx, job.lane, job.id))) return { ...job, claim: name, isLast: !isMore };
  const free = { claim: null, holder: null, claimed_until: null, tries: job.tries - 1 };
  await trx.updateTable('jobs').set(free).where('id', '=', job.id).execute();
  return 'overtaken';
}

/** Two jobs of one lane can have been claimed at the same moment: the lane is held, and looked at then. */
async function isAlone(trx: Transaction, lane: string, id: bigint): Promise<boolean> {
  const { rows } = await sql<{ held: boolean }>`
    select pg_try_advisory_xact_lock(hashtextextended(${lane}, 0)) as held
  `.execute(trx);
  if (rows[0]?.held !== true) return false;
  const others = trx.selectFrom('jobs').select('id').where('lane', '=', lane).where('claim', 'is not', null);
  return (await others.where('id', '!=', id).executeTakeFirst()) === undefined;
}

/** With empty hands, together with all others who wait, and let go at once: who waited begins anew. */
const waitForTurn = prepared<{ account: bigint }, { turn: bigint }>((db, value) =>
  db.selectFrom('queue_turns').select('turn').where('account_id', '=', value('account')).forShare(),
);

/*
 * An account's jobs are looked for from its number on and up to it: told that the account is the same, PostgreSQL would
 * as soon go through everybody's jobs by age until one of this account comes. And whether there is any is asked as which
 * one is the first, because it would turn "exists" into a join and look at all that wait. What is taken was found to be
 * unclaimed and is held: to ask for that again would lead it along all that is unclaimed.
 */
function statement(kinds: RawBuilder<string>[], value: Value, isBound: boolean, isBounded: boolean): RawBuilder<Taken> {
  const kind = sql.join(kinds);
  const own = isBound
    ? sql`and account_id in (select account_id from runner_accounts where runner_id = ${value('runner')})`
    : sql``;
  const waiting = (account: RawBuilder<unknown>): RawBuilder<unknown> => sql`
    select jobs.id from jobs
    where jobs.account_id >= ${account} and jobs.account_id <= ${account} and jobs.claim is null
      and jobs.kind in (${kind}) and jobs.run_after <= ${value('now')} and ${laneIsFree('jobs')}
    order by jobs.account_id, jobs.run_after, jobs.id limit 1`;
  // Kind by kind, which leads along the index of those that are due.
  const more = sql.join(
    kinds.map(
      (one) => sql`exists (
        select 1 from jobs as other
        where other.claim is null and other.kind = ${one} and other.run_after <= ${value('now')} and other.id <> taken.id
      )`,
    ),
    sql` or `,
  );
  const orFirst = isBounded ? sql`` : sql`, (select account_id from candidates order by place limit 1)`;
  return sql<Taken>`
    with idle as materialized (
      select account_id, turn, 0 as running from queue_turns
      where (${waiting(sql`queue_turns.account_id`)}) is not null and (
          select under_way.id from jobs as under_way
          where under_way.account_id >= queue_turns.account_id and under_way.account_id <= queue_turns.account_id
            and under_way.claim is not null and under_way.kind in (${kind})
          order by under_way.account_id limit 1
        ) is null ${own}
      order by turn limit ${sql.lit(mostTried)}
    ), busy as materialized (
      select counted.account_id, queue_turns.turn, counted.running
      from (
        select account_id, count(*) as running from jobs
        where claim is not null and kind in (${kind}) ${own} group by account_id
      ) as counted join queue_turns on queue_turns.account_id = counted.account_id
      where not exists (select 1 from idle) and counted.running < ${value('most')}
        and (${waiting(sql`queue_turns.account_id`)}) is not null
      order by counted.running, queue_turns.turn limit ${sql.lit(mostTried)}
    ), candidates as materialized (
      select account_id, turn, row_number() over (order by running, turn) as place
      from (select * from idle union all select * from busy) as either
    ), held as materialized (
      select queue_turns.account_id from candidates
      join queue_turns on queue_turns.account_id = candidates.account_id and queue_turns.turn = candidates.turn
      order by candidates.place limit 1 for no key update of queue_turns skip locked
    ), chosen as materialized (
      select coalesce((select account_id from held) ${orFirst}) as account_id
    ), job as materialized (
      ${waiting(sql`(select account_id from chosen)`)} for update of jobs skip locked
    ), taken as (
      update jobs
      set claim = ${value('claim')}, holder = ${value('holder')}, tries = jobs.tries + 1,
        claimed_until = (extract(epoch from clock_timestamp()) * 1000)::bigint + ${value('ms')}
      where jobs.id = (select id from job) returning jobs.*
    ), passed as (
      update queue_turns set turn = ${value('turn')} from held
      where queue_turns.account_id = held.account_id and exists (select 1 from job)
    )
    select taken.*, (select account_id from candidates order by place limit 1) as first,
      (select count(*) from candidates) as accounts,
      (${more}) as is_more
    from (select 1) as one left join taken on true`;
}
