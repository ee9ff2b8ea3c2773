import { sql, type RawBuilder } from 'kysely';
import type { Transaction } from '../db/open.ts';
import { prepared } from '../db/prepared.ts';
import type { JobRow } from '../db/schema.ts';
import { forEachRunnerKind, mostOf, type RunnerKind, type Serving } from './accounts.ts';
import type { ClaimedJob } from './queue.ts';
import { forKinds } from './statements.ts';
import { literals, noTags, oldestWaiting, oldestWith, type Search } from './waiting.ts';

/**
 * Claims on PostgreSQL, where several servers claim at once. One statement finds the next account and its oldest job,
 * claims the job, and moves the account behind the others.
 *
 * A claim locks the turn of its account, so concurrent claims skip that account and serve the next one. If no other
 * account has a waiting job, they take the next job of the same account: no claim waits for another. Only with a limit
 * of jobs under way must the claims of an account come one after the other. Then a claim counts only if no other claim
 * for the account was made since its jobs were counted, which its turn shows; a claim that finds the turn locked waits.
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
  tags: string;
}

type Value = <Name extends keyof Values>(name: Name) => Values[Name];

/** The claimed job, if any, the first account with a waiting job, and how many such accounts there are. */
type Taken = (JobRow | Record<keyof JobRow, null>) & { first: bigint | null; accounts: bigint; is_more: boolean };

/** If other claims hold the first accounts, the next ones are tried, up to this many. */
const mostTried = 16;

const takes = forKinds((kinds) => {
  const make = (runner: RunnerKind, isBounded: boolean) =>
    prepared<Values, Taken>((db, value) => ({
      compile: () => statement(kinds, value, runner, isBounded).compile(db),
    }));
  return forEachRunnerKind((runner) => ({ unbounded: make(runner, false), bounded: make(runner, true) }));
});

/** Claims the next job; `overtaken` when another claim was faster. */
export async function takeNext(trx: Transaction, taking: Taking): Promise<ClaimedJob | 'overtaken' | undefined> {
  const { kinds, mostRunning = 0, boundAs, tags = '', name, holder, seconds, turn } = taking;
  const isBounded = mostRunning > 0;
  const take = takes(kinds)(taking)[isBounded ? 'bounded' : 'unbounded'];
  const clock = { now: BigInt(Date.now()), ms: BigInt(seconds * 1000) };
  const values = { ...clock, most: mostOf(mostRunning), runner: boundAs ?? 0n, claim: name, holder, turn, tags };
  const [taken] = await take(trx, values);
  if (!taken || taken.first === null) return undefined;
  const { first, accounts, is_more: isMore, ...job } = taken;
  if (job.id === null) {
    // There is one account, and other claims hold all its waiting jobs: a free job would have been found. For a runner
    // with tags that is known only of jobs with the same tags as the oldest one.
    if (!isBounded && accounts === 1n && tags === '') return undefined;
    if (isBounded) await waitForTurn(trx, { account: first });
    return 'overtaken';
  }
  if (job.lane === null || (await isAlone(trx, job.lane, job.id))) return { ...job, claim: name, isLast: !isMore };
  const free = { claim: null, holder: null, claimed_until: null, tries: job.tries - 1 };
  await trx.updateTable('jobs').set(free).where('id', '=', job.id).execute();
  return 'overtaken';
}

/** Two jobs of one lane may have been claimed at the same moment, so the lane is locked and checked. */
async function isAlone(trx: Transaction, lane: string, id: bigint): Promise<boolean> {
  const { rows } = await sql<{ held: boolean }>`
    select pg_try_advisory_xact_lock(hashtextextended(${lane}, 0)) as held
  `.execute(trx);
  if (rows[0]?.held !== true) return false;
  const others = trx.selectFrom('jobs').select('id').where('lane', '=', lane).where('claim', 'is not', null);
  return (await others.where('id', '!=', id).executeTakeFirst()) === undefined;
}

/**
 * Waits for the turn with a shared lock, which all waiting claims get together. The transaction then ends and the claim
 * is tried again.
 */
const waitForTurn = prepared<{ account: bigint }, { turn: bigint }>((db, value) =>
  db.selectFrom('queue_turns').select('turn').where('account_id', '=', value('account')).forShare(),
);

/*
 * The first job under way is asked for instead of "exists", which PostgreSQL would turn into a join. The update does not
 * check again that the job is unclaimed, which is known and locked: the condition would make PostgreSQL read all
 * unclaimed jobs.
 */
function statement(
  kinds: readonly string[],
  value: Value,
  { isBound, hasTags }: RunnerKind,
  isBounded: boolean,
): RawBuilder<Taken> {
  const kind = sql.join(literals(kinds));
  const searching = (account: RawBuilder<unknown>): Search => ({
    kinds,
    account,
    now: value('now'),
    tags: hasTags ? value('tags') : undefined,
  });
  const own = isBound
    ? sql`and account_id in (select account_id from runner_accounts where runner_id = ${value('runner')})`
    : sql``;
  const waiting = (account: RawBuilder<unknown>) => oldestWaiting('postgres', searching(account));
  const chosen = sql`(select account_id from chosen)`;
  // The tags of the chosen account's oldest job that fits. Of the jobs with these tags, the first that is free is taken.
  const chosenTags = hasTags ? sql`(select tags from jobs where id = (${waiting(chosen)}))` : noTags;
  // One query per kind, which follows the index of due jobs.
  const more = sql.join(
    literals(kinds).map(
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
      ${oldestWith('postgres', searching(chosen), chosenTags)} for update of waiting skip locked
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
