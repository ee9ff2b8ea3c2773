import { sql, type RawBuilder, type SqlBool } from 'kysely';
import type { Database, Queries, Transaction } from '../db/open.ts';
import { isAboutIsolation } from '../../shared/domain/isolation.ts';
import { fetchKinds, fetchSlots, waitsForItsTurn, slotOf } from '../../shared/domain/runner-slots.ts';
import { repeatedly } from '../../shared/lib/repeatedly.ts';
import { hasTags, tagsIn } from '../../shared/domain/tags.ts';
import { allRunners, type RegisteredRunner, type Runner } from './runners.ts';

/**
 * All connected runners are recorded, so that every server can report why work is not taken. A server also records that
 * its own runner does not start, because that is visible nowhere else.
 */

const awayAfterMs = 20_000n;
const noteEveryMs = 10_000;

type Beating = Pick<Runner, 'holder' | 'id'>;

export interface Heartbeat {
  version: string;
  trouble: string;
  tags?: string;
  /** Slots for builds; 0 if not reported. */
  slots?: number;
}

const unreported = { tags: '', slots: 0 };

export interface Heartbeats {
  /** Admits the runner even if this cannot be recorded, as on a full disk. */
  came(runner: Beating, heartbeat: Heartbeat): Promise<void>;
  close(): Promise<void>;
}

/** Records runners when they connect, and regularly while they stay. */
export function recordHeartbeats(db: Database, connected: () => Iterable<string>, everyMs = noteEveryMs): Heartbeats {
  /** Runners whose connection could not be recorded yet. */
  const missed = new Map<string, () => Promise<void>>();
  const noteAll = async (): Promise<void> => {
    const there = [...new Set(connected())].toSorted();
    for (const holder of missed.keys()) if (!there.includes(holder)) missed.delete(holder);
    for (const note of missed.values()) await note();
    if (there.length === 0) return;
    await db.transaction(async (trx) => {
      for (const holder of there) await stays(db, trx, holder);
    });
  };
  const noting = repeatedly(everyMs, noteAll, () => {});
  return {
    async came(runner, heartbeat) {
      const note = async (): Promise<void> => {
        await recordHeartbeat(db, runner, heartbeat);
        missed.delete(runner.holder);
      };
      await note().catch(() => missed.set(runner.holder, note));
    },
    close: () => noting.stop(),
  };
}

const stays = async (db: Database, trx: Transaction, holder: string): Promise<void> => {
  await trx.updateTable('runner_heartbeats').set({ seen_at: db.clock }).where('holder', '=', holder).execute();
};

export async function recordHeartbeat(db: Database, { holder, id }: Beating, heartbeat: Heartbeat): Promise<void> {
  await db.transaction((trx) =>
    trx
      .insertInto('runner_heartbeats')
      .values({ holder, runner_id: id ?? null, seen_at: db.clock, ...unreported, ...heartbeat })
      .onConflict((row) => row.column('holder').doUpdateSet({ seen_at: db.clock, ...unreported, ...heartbeat }))
      .execute(),
  );
}

export interface LocalHeartbeats {
  /** The runner counts as present before its first call, unless that takes too long. */
  starting(): Promise<void>;
  failing(trouble: string): Promise<void>;
  stopped(): Promise<void>;
}

export function localHeartbeats(
  db: Database,
  holder: string,
  { tags }: Required<Pick<Runner, 'tags'>>,
): LocalHeartbeats {
  return {
    async starting() {
      const row = { holder, runner_id: null, seen_at: db.clock, version: '', trouble: '', slots: 0, tags };
      await db.transaction((trx) =>
        trx
          .insertInto('runner_heartbeats')
          .values(row)
          // A runner that failed stays failed until it calls.
          .onConflict((known) =>
            known.column('holder').doUpdateSet({ seen_at: db.clock, tags }).where('runner_heartbeats.trouble', '=', ''),
          )
          .execute(),
      );
    },
    failing: (trouble) => recordHeartbeat(db, { holder }, { version: '', trouble, tags }),
    async stopped() {
      await db.transaction((trx) => trx.deleteFrom('runner_heartbeats').where('holder', '=', holder).execute());
    },
  };
}

/** Servers that were killed and did not return leave records of their own runners. */
export async function forgetOldHeartbeats(db: Database): Promise<void> {
  const old = sql<SqlBool>`seen_at < ${db.clock} - ${24n * 60n * 60n * 1000n}`;
  await db.transaction((trx) =>
    trx.deleteFrom('runner_heartbeats').where('runner_id', 'is', null).where(old).execute(),
  );
}

/** A heartbeat in the future was recorded before the clock was set back. */
const isAlive = ({ clock }: Pick<Database, 'clock'>) =>
  sql<SqlBool>`heartbeat.seen_at > ${clock} - ${sql.lit(awayAfterMs)} and heartbeat.seen_at < ${clock} + ${sql.lit(awayAfterMs)}`;

/** Present runners with the same tags, added up. */
interface Takers {
  tags: string;
  builds: bigint | number;
  busy_builds: bigint | number;
  fetches: bigint | number;
  busy_fetches: bigint | number;
}

const underWay = sql<{ holder: string; builds: bigint; fetches: bigint }>`(
  select holder, sum(1 - is_fetch) as builds, sum(is_fetch) as fetches from (
    select holder, case when kind in (${sql.join(fetchKinds.map((kind) => sql.lit(kind)))}) then 1 else 0 end as is_fetch
    from jobs where claim is not null
  ) as each_job group by holder
)`.as('held');

const builds = sql<bigint>`coalesce(held.builds, 0)`;
const fetches = sql<bigint>`coalesce(held.fetches, 0)`;
/**
 * Processes with one token count as one runner, so it may have more jobs than reported slots. Without a reported
 * number, it is unknown whether a slot is free.
 */
const slotsFor = (busy: RawBuilder<bigint>, least: number): RawBuilder<bigint> => sql`sum(case
  when heartbeat.slots = 0 then ${busy} + 1
  when ${busy} > heartbeat.slots and ${busy} > ${sql.lit(least)} then ${busy}
  when heartbeat.slots > ${sql.lit(least)} then heartbeat.slots else ${sql.lit(least)} end)`;

const findTakers = (db: Database, read: Queries, account: bigint): Promise<Takers[]> =>
  read
    .selectFrom('runner_heartbeats as heartbeat')
    .leftJoin('runners', 'runners.id', 'heartbeat.runner_id')
    .leftJoin(underWay, 'held.holder', 'heartbeat.holder')
    .select('heartbeat.tags')
    .select(slotsFor(builds, 1).as('builds'))
    .select(sql<bigint>`sum(${builds})`.as('busy_builds'))
    .select(slotsFor(fetches, fetchSlots(1)).as('fetches'))
    .select(sql<bigint>`sum(${fetches})`.as('busy_fetches'))
    .groupBy('heartbeat.tags')
    .where(takesWorkOf(db, sql`${account}`))
    .execute();

/** Of `runner_heartbeats as heartbeat` joined to `runners`. */
const takesWorkOf = (db: Pick<Database, 'clock'>, account: RawBuilder<unknown>) => sql<SqlBool>`(
  heartbeat.trouble = '' and ${isAlive(db)} and runners.revoked_at is null
  and coalesce(runners.draining, 0) = 0
  and (
    not exists (select 1 from runner_accounts as bound where bound.runner_id = heartbeat.runner_id)
    or exists (
      select 1 from runner_accounts as bound
      where bound.runner_id = heartbeat.runner_id and bound.account_id = ${account}
    )
  )
)`;

/** A query for the holders of connected runners that can take such a job. */
export function ableTo(
  db: Pick<Database, 'clock' | 'isSubset'>,
  { account, tags }: { account: RawBuilder<unknown>; tags: RawBuilder<string> },
): RawBuilder<unknown> {
  return sql`
    select heartbeat.holder from runner_heartbeats as heartbeat
    left join runners on runners.id = heartbeat.runner_id
    where ${takesWorkOf(db, account)} and ${db.isSubset(tags, sql.ref('heartbeat.tags'))}`;
}

/** The reasons are in words for any reader. */
export interface WhyWaiting {
  /** Why no runner takes it. Undefined if one may. */
  nobody(needed: string): string | undefined;
  busy(needed: string, kind: string): string;
}

export async function whyNobodyTakes(db: Database, account: bigint): Promise<string | undefined> {
  return (await whyWaiting(db, account)).nobody('');
}

export async function whyWaiting(db: Database, account: bigint, read = db.read): Promise<WhyWaiting> {
  const takers = await findTakers(db, read, account);
  const noneAtAll = takers.length === 0 ? whyNobody(await runnersNow({ read, clock: db.clock })) : undefined;
  return {
    nobody(needed) {
      if (noneAtAll !== undefined || !noneHasTags(takers, needed)) return noneAtAll;
      return `no runner has the tags ${tagsIn(needed).join(', ')}`;
    },
    busy(needed, kind) {
      const isFetch = slotOf(kind) === 'fetches';
      const having = takers.filter(({ tags }) => hasTags(tags, needed));
      const sum = (of: (taker: Takers) => bigint | number): number =>
        having.reduce((total, taker) => total + Number(of(taker)), 0);
      const all = sum((taker) => (isFetch ? taker.fetches : taker.builds));
      const busy = sum((taker) => (isFetch ? taker.busy_fetches : taker.busy_builds));
      // A free slot may be about to take it, or its account is at its limit of running jobs.
      if (busy < all || all === 0) return waitsForItsTurn;
      return `${busy} of ${all} slots${isFetch ? ' for fetches' : ''} are busy`;
    },
  };
}

export function noneHasTags(runners: readonly { tags: string }[], needed: string): boolean {
  return !runners.some(({ tags }) => hasTags(tags, needed));
}

export const lookAgain = 'runners:look-again';

/** For operators, if a server's own runner does not start. */
export async function troubleOfRunners(db: Pick<Database, 'read' | 'clock'>): Promise<string | undefined> {
  const known = await db.read
    .selectFrom('runner_heartbeats as heartbeat')
    .select(['heartbeat.trouble', 'heartbeat.runner_id', isAlive(db).as('is_there')])
    .execute();
  if (known.some(({ trouble, is_there: isThere }) => trouble === '' && isThere)) return undefined;
  return known.find(({ trouble, runner_id: id }) => trouble !== '' && id === null)?.trouble;
}

export function whyNobody(runners: readonly RunnerNow[]): string {
  const connected = runners.filter(({ state }) => state === 'idle' || state === 'busy');
  if (connected.some(({ isDraining }) => !isDraining)) return 'no connected runner works for this account';
  if (connected.length > 0) return 'all connected runners are draining';
  const failing = runners.filter(({ state }) => state === 'failing');
  // Only these words are fit for any reader: other failures have a process's own words.
  const unisolated = failing.find(({ isLocal, trouble }) => isLocal && isAboutIsolation(trouble));
  if (unisolated) return unisolated.trouble;
  if (failing.length > 0)
    return 'no working runner is connected: one is failing, and operators see why in the list of runners';
  return 'no runner is connected';
}

export interface RunnerNow {
  name: string;
  isLocal: boolean;
  isDraining: boolean;
  state: 'idle' | 'busy' | 'away' | 'failing';
  trouble: string;
  version: string;
  seenAt: bigint | null;
  /** E-mail addresses. Empty means all. */
  accounts: string[];
  tags: string[];
  /** Slots for builds; 0 if not reported. */
  slots: number;
  work: { kind: string; subjectId: bigint; account: string }[];
}

export async function runnersNow(db: Pick<Database, 'read' | 'clock'>): Promise<RunnerNow[]> {
  const registered = (await allRunners(db.read)).filter(({ revoked_at: revoked }) => revoked === null);
  const heartbeats = await db.read
    .selectFrom('runner_heartbeats as heartbeat')
    .selectAll()
    .select(isAlive(db).as('is_there'))
    .orderBy('heartbeat.holder')
    .execute();
  const held = await db.read
    .selectFrom('jobs')
    .leftJoin('users', 'users.id', 'jobs.account_id')
    .select(['jobs.id', 'jobs.holder', 'jobs.kind', 'jobs.subject_id', 'users.email'])
    .where('jobs.claim', 'is not', null)
    .execute();
  // Sorted here: a database would also read all waiting jobs, in the order of the key.
  const inOrder = held.toSorted((a, b) => (a.id < b.id ? -1 : 1));
  const byHolder = Map.groupBy(inOrder, ({ holder }) => holder);
  const workOf = (holder: string): RunnerNow['work'] =>
    (byHolder.get(holder) ?? []).map(({ kind, subject_id: subjectId, email }) => ({
      kind,
      subjectId,
      account: email ?? '',
    }));
  const now = (
    { name, accounts, draining }: Pick<RegisteredRunner, 'name' | 'accounts' | 'draining'>,
    heartbeat: (typeof heartbeats)[number] | undefined,
  ): RunnerNow => {
    const work = heartbeat ? workOf(heartbeat.holder) : [];
    const { trouble = '', version = '', seen_at: seenAt = null, tags = '', slots = 0 } = heartbeat ?? {};
    const state = trouble !== '' ? 'failing' : !heartbeat?.is_there ? 'away' : work.length > 0 ? 'busy' : 'idle';
    const isLocal = heartbeat?.runner_id === null;
    const isDraining = draining === 1;
    const known = { trouble, version, seenAt, tags: tagsIn(tags), slots, work };
    return { name, isLocal, isDraining, state, accounts, ...known };
  };
  const byRunner = new Map(heartbeats.map((heartbeat) => [heartbeat.runner_id, heartbeat]));
  return [
    ...heartbeats
      .filter(({ runner_id: id }) => id === null)
      .map((heartbeat) => now({ name: heartbeat.holder, accounts: [], draining: 0 }, heartbeat)),
    ...registered.map((runner) => now(runner, byRunner.get(runner.id))),
  ];
}

export async function isHolderAlive(db: Pick<Database, 'read' | 'clock'>, holder: string): Promise<boolean> {
  const heartbeats = db.read
    .selectFrom('runner_heartbeats as heartbeat')
    .select('heartbeat.holder')
    .where('heartbeat.holder', '=', holder);
  return (await heartbeats.where(isAlive(db)).where('heartbeat.trouble', '=', '').executeTakeFirst()) !== undefined;
}
