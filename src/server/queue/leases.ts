import { sql, type RawBuilder } from 'kysely';
import type { Database, Queries, Transaction } from '../db/open.ts';
import type { JobRow } from '../db/schema.ts';
import { randomName } from '../../shared/lib/random-name.ts';
import { lost } from './tried.ts';

/**
 * The life of a claim, for all kinds of jobs. A holder takes a due job for a while, and extends its claim until it ends
 * the job or frees it. A claim that is not extended expires (lapses.ts), and then the job is claimed again.
 */
export interface ClaimedJob extends JobRow {
  claim: string;
}

type Claimed = Pick<ClaimedJob, 'id' | 'claim'>;

/** Announced when holders should check their claims. */
export const claimsTopic = 'claims';

const mostNamed = 500;

/** The caller has locked the unclaimed job. A condition on the claim would make PostgreSQL read all unclaimed jobs. */
export async function take(
  db: Database,
  trx: Transaction,
  job: JobRow,
  { seconds, ...taken }: Pick<ClaimedJob, 'claim' | 'holder' | 'tries'> & { seconds: number },
): Promise<ClaimedJob> {
  await trx
    .updateTable('jobs')
    .set({ ...taken, claimed_until: lasting(db, seconds) })
    .where('id', '=', job.id)
    .where('kind', '=', sql.lit(job.kind)) // distinguishes delivery jobs (db/lock-watch.ts)
    .execute();
  return { ...job, ...taken };
}

export async function changeKind(trx: Transaction, job: ClaimedJob, kind: string): Promise<ClaimedJob> {
  await trx.updateTable('jobs').set({ kind }).where('id', '=', job.id).where('kind', '=', sql.lit(job.kind)).execute();
  return { ...job, kind };
}

interface ClaimingDue {
  kind: string;
  holder: string;
  seconds: number;
  most?: number;
  /** How many more jobs of an account its holder can do. */
  roomOf?: (account: bigint) => number;
  /** Accounts without room. */
  except?: readonly bigint[];
}

/**
 * Claims the longest-due jobs of a kind that servers run themselves. It ignores fairness between accounts and counts no
 * try.
 */
export async function claimDue(
  db: Database,
  trx: Transaction,
  { kind, holder, seconds, most = 1, roomOf = () => Infinity, except = [] }: ClaimingDue,
): Promise<ClaimedJob[]> {
  const due = trx
    .selectFrom('jobs')
    .selectAll()
    .where('kind', '=', sql.lit(kind))
    .where('claim', 'is', null)
    .where('run_after', '<=', BigInt(Date.now()))
    .$if(except.length > 0, (query) => query.where('account_id', 'not in', except))
    .orderBy('run_after')
    .limit(most);
  const claimed: ClaimedJob[] = [];
  for (const job of await db.skipLocked(due, 'jobs').execute()) {
    const alike = claimed.filter(({ account_id: account }) => account === job.account_id).length;
    const { tries } = job;
    if (alike < roomOf(job.account_id))
      claimed.push(await take(db, trx, job, { claim: randomName(), holder, tries, seconds }));
  }
  return claimed;
}

/** For a claim that was rolled back with its transaction. It still counts as a try. */
export async function claimAgain(
  db: Database,
  trx: Transaction,
  { id, claim, holder, tries }: ClaimedJob,
  seconds: number,
): Promise<ClaimedJob | undefined> {
  const job = await db.locked(trx.selectFrom('jobs').selectAll().where('id', '=', id), 'jobs').executeTakeFirst();
  return job?.claim === null ? take(db, trx, job, { claim, holder, tries, seconds }) : undefined;
}

/** Undefined if the claim has expired or the job is done. */
export async function jobOf(db: Queries, claim: string): Promise<ClaimedJob | undefined> {
  const job = await db.selectFrom('jobs').selectAll().where('claim', '=', claim).executeTakeFirst();
  return job && { ...job, claim };
}

/** Locks the job until the transaction ends. A transaction that settles a job begins with this. */
export async function holdJob(db: Database, trx: Transaction, claim: string): Promise<ClaimedJob | undefined> {
  const claimed = trx.selectFrom('jobs').selectAll().where('claim', '=', claim);
  const job = await db.locked(claimed, 'jobs').executeTakeFirst();
  return job && { ...job, claim };
}

export function heldBy(db: Queries, holder: string): Promise<JobRow[]> {
  return db.selectFrom('jobs').selectAll().where('claim', 'is not', null).where('holder', '=', holder).execute();
}

export type HeldClaim = { holder: string; claim: string } & Pick<JobRow, 'cancelled'>;

export async function heldByAll(db: Queries, holders: readonly string[]): Promise<HeldClaim[]> {
  const held: HeldClaim[] = [];
  for (let at = 0; at < holders.length; at += mostNamed) {
    const some = db.selectFrom('jobs').select(['claim', 'holder', 'cancelled']).where('claim', 'is not', null);
    const rows = await some.where('holder', 'in', holders.slice(at, at + mostNamed)).execute();
    for (const { claim, holder, cancelled } of rows)
      if (claim !== null && holder !== null) held.push({ claim, holder, cancelled });
  }
  return held;
}

export async function claimsUnderWay(db: Queries): Promise<string[]> {
  const held = await db.selectFrom('jobs').select('claim').where('claim', 'is not', null).execute();
  return held.flatMap(({ claim }) => claim ?? []);
}

/** Returns how many are still claimed. Their jobs are locked until the transaction ends. */
export async function extend(
  db: Database,
  trx: Transaction,
  { holder, claims, seconds }: { holder: string; claims: readonly string[]; seconds: number },
): Promise<number> {
  const those = trx.selectFrom('jobs').select('id').where('claim', 'in', claims).where('holder', '=', holder);
  if (claims.length > 1) await db.locked(those.orderBy('id'), 'jobs').execute(); // in the order of all transactions
  const { numUpdatedRows } = await trx
    .updateTable('jobs')
    .set({ claimed_until: lasting(db, seconds) })
    .where('claim', 'in', claims)
    .where('holder', '=', holder)
    .executeTakeFirst();
  return Number(numUpdatedRows);
}

export type Postponed = Partial<Pick<JobRow, 'tries' | 'run_after' | 'location'>>;

const unclaimed = {
  claim: null,
  holder: null,
  claimed_until: null,
  named_blobs: null,
  stored_blob: null,
  stored_bytes: null,
};

/** False if the claim is lost. */
export async function free(trx: Transaction, { id, claim }: Claimed, changes: Postponed = {}): Promise<boolean> {
  const job = trx.updateTable('jobs').set({ ...unclaimed, ...changes });
  const freed = await job.where('id', '=', id).where('claim', '=', claim).executeTakeFirst();
  return freed.numUpdatedRows === 1n;
}

/** Only if the claim is still valid. */
export async function end(trx: Transaction, { id, claim }: Claimed): Promise<void> {
  await trx.deleteFrom('jobs').where('id', '=', id).where('claim', '=', claim).execute();
}

/** For a holder that has just started: it works on none of the jobs that it still holds. */
export async function freeAllOf(trx: Transaction, { holder, kind }: { holder: string; kind: string }): Promise<void> {
  const held = trx.updateTable('jobs').set(unclaimed).where('kind', '=', sql.lit(kind));
  await held.where('claim', 'is not', null).where('holder', '=', holder).execute();
}

/** Stored time of a holder known to be gone: its claims expire at once. */
export const nobody = 0n;

/**
 * For a holder that continues after its server stopped. Other servers wait for that machine's next server, which may
 * first install an upgrade. Its next extension makes the claims ordinary again.
 */
export const detached = -1n;

/** The holder is gone, or was revoked. The claims get another holder, so messages already under way do not count. */
export async function lapse(db: Database, trx: Transaction, holder: string): Promise<void> {
  await changeHeld(db, trx, holder, { claimed_until: nobody, holder: `${lost}${holder}` });
  await db.announce(trx, claimsTopic);
}

export async function detachHolder(db: Database, trx: Transaction, holder: string): Promise<void> {
  await changeHeld(db, trx, holder, { claimed_until: detached });
}

async function changeHeld(
  db: Database,
  trx: Transaction,
  holder: string,
  change: Partial<Pick<JobRow, 'claimed_until' | 'holder'>>,
): Promise<void> {
  const those = trx.selectFrom('jobs').select('id').where('claim', 'is not', null).where('holder', '=', holder);
  await db.locked(those.orderBy('id'), 'jobs').execute();
  await trx.updateTable('jobs').set(change).where('claim', 'is not', null).where('holder', '=', holder).execute();
}

function lasting(db: Database, seconds: number): RawBuilder<bigint> {
  return sql<bigint>`${db.clock} + ${BigInt(seconds * 1000)}`;
}
