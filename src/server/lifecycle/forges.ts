import { sql } from 'kysely';
import type { Database, Queries, Transaction } from '../db/open.ts';
import { sealIn } from '../db/sealing.ts';
import { sealedLocation, type ForgeRemovalRow, type ForgeRow, type ProjectRow } from '../db/schema.ts';
import type { IdSource } from '../../shared/lib/ids.ts';
import type { Vault } from '../../shared/lib/vault.ts';
import type { ForgeState } from '../../shared/records/forge.ts';
import { forgeChecks, forgeRemovals, makeStrandedDue, nextDue } from '../queue/due.ts';
import { forgesTopic, linkHeldMs } from './forge-holds.ts';
import type { WriteContext } from './write-context.ts';

/**
 * Every part created at a forge is first recorded for removal (`forge_removals`). The transaction that keeps the part
 * deletes that record. So no unknown part stays at a forge, even if a server dies.
 */

type Stored = Pick<ForgeRow, 'login' | 'may' | 'state_reason'> & { state: ForgeState };

export function tokenLocation(id: bigint): string {
  return sealedLocation({ table: 'forges', column: 'token' }, id);
}

export async function insertForge(
  { trx, ids, vault }: { trx: Transaction; ids: IdSource; vault: Vault },
  settings: Pick<ForgeRow, 'owner_id' | 'provider' | 'url'>,
  token: string,
  seen: Stored,
): Promise<ForgeRow> {
  const id = ids.next();
  const now = BigInt(Date.now());
  const row: ForgeRow = {
    id,
    ...settings,
    ...seen,
    token: await sealIn(trx, vault, token, tokenLocation(id)),
    checked_at: now,
    created_at: now,
    deleted_at: null,
    held_until: 0n,
  };
  await trx.insertInto('forges').values(row).execute();
  return row;
}

export async function changeForge(
  { trx, vault }: { trx: Transaction; vault: Vault },
  forge: ForgeRow,
  seen: Partial<Stored>,
  token?: string,
): Promise<ForgeRow> {
  const changed = {
    ...seen,
    checked_at: BigInt(Date.now()),
    ...(token !== undefined && { token: await sealIn(trx, vault, token, tokenLocation(forge.id)) }),
  };
  await trx.updateTable('forges').set(changed).where('id', '=', forge.id).execute();
  return { ...forge, ...changed };
}

/** Locks a forge for a change. Undefined if its token was replaced or the forge was disconnected meanwhile. */
export async function holdForge(trx: Transaction, { id, token }: ForgeRow): Promise<ForgeRow | undefined> {
  const same = trx
    .updateTable('forges')
    .set({ checked_at: BigInt(Date.now()) })
    .where('id', '=', id);
  return same.where('token', '=', token).where('deleted_at', 'is', null).returningAll().executeTakeFirst();
}

export function connectedForges(db: Queries) {
  return db.selectFrom('forges').selectAll().where('deleted_at', 'is', null);
}

export function forgesOf(db: Queries, ownerId: bigint) {
  return connectedForges(db).where('owner_id', '=', ownerId);
}

/** Disconnects a forge. Its row stays until everything there is removed (`forgetRetired`). */
export async function retireForge(trx: Transaction, id: bigint): Promise<void> {
  const deleted = { deleted_at: BigInt(Date.now()) };
  await trx.updateTable('forges').set(deleted).where('id', '=', id).execute();
}

export async function forgetRetired(trx: Transaction, id: bigint): Promise<void> {
  await trx
    .deleteFrom('forges')
    .where('id', '=', id)
    .where('deleted_at', 'is not', null)
    .where('id', 'not in', (of) => of.selectFrom('forge_removals').select('forge_id'))
    .execute();
}

export type LinkFields = Pick<
  ProjectRow,
  'forge_id' | 'forge_repository' | 'forge_repository_id' | 'forge_git_origin' | 'forge_state' | 'forge_state_reason'
>;

type Link = Partial<LinkFields & Pick<ProjectRow, 'forge_check_at' | 'forge_mends' | 'repository_url' | 'clone_url'>>;
type InTransaction = Pick<WriteContext, 'db' | 'trx'>;

/** Whether the next check of a project also recreates missing parts, and whether a user waits for that. */
export const mends = { none: 0, soon: 1, atOnce: 2 } as const;

export const unlinked = {
  forge_id: null,
  forge_repository: '',
  forge_repository_id: '',
  forge_git_origin: '',
  forge_state: 'none',
  forge_state_reason: '',
  forge_check_at: null,
  forge_mends: mends.none,
} as const satisfies Partial<ProjectRow>;

/** Projects repaired at once with a new token. All other projects are only due, to avoid a burst at the forge. */
const mendedAtOnce = 5;

const day = 24 * 60 * 60 * 1000;

/** About a day later, with jitter: projects that were connected together are not checked together. */
export function nextCheck(now = Date.now()): bigint {
  return BigInt(Math.round(now + day * (0.9 + 0.2 * Math.random())));
}

/** No work at a forge is postponed for longer. */
const longestCheckMs = 1.1 * day;

/**
 * Ends the hold too, in one statement: PostgreSQL checks all references of a row that its transaction changed before,
 * and may then wait for the forge after the project.
 */
export async function setLink(
  { trx }: Pick<WriteContext, 'trx'>,
  projectId: bigint,
  link: Link,
  held?: bigint,
): Promise<void> {
  const until = sql<bigint>`case when forge_held_until = ${held ?? null} then 0 else forge_held_until end`;
  const changes = held === undefined ? link : { ...link, forge_held_until: until };
  await trx.updateTable('projects').set(changes).where('id', '=', projectId).execute();
}

/** For all projects of a forge, or only those due by a time. */
async function setLinks({ db, trx }: InTransaction, forgeId: bigint, link: Link, dueBy?: bigint): Promise<void> {
  // All transactions lock projects in this order (db/lock-order.ts). An update would use its own order.
  const locked = trx.selectFrom('projects').select('id').where('forge_id', '=', forgeId).orderBy('id');
  await db.locked(locked, 'projects').execute();
  const all = trx.updateTable('projects').set(link).where('forge_id', '=', forgeId);
  await (dueBy === undefined ? all : all.where('forge_check_at', '<=', dueBy)).execute();
}

export async function breakLinks(context: InTransaction, forgeId: bigint, reason: string): Promise<void> {
  await setLinks(context, forgeId, { forge_state: 'incomplete', forge_state_reason: reason });
}

export async function mendLinks({ db, trx }: InTransaction, forgeId: bigint): Promise<void> {
  await trx
    .updateTable('forge_removals')
    .set({ run_after: BigInt(Date.now()) })
    .where('forge_id', '=', forgeId)
    .where('tries', '>', 0)
    .execute();
  const forge_check_at = BigInt(Date.now());
  await setLinks({ db, trx }, forgeId, { forge_check_at, forge_mends: mends.soon });
  const first = trx.selectFrom('projects').select('id').where('forge_id', '=', forgeId).orderBy('id', 'desc');
  const ids = (await first.limit(mendedAtOnce).execute()).map(({ id }) => id);
  for (const id of ids) await setLink({ trx }, id, { forge_mends: mends.atOnce });
  await db.announce(trx, forgesTopic);
}

/** Checks the project's parts at the forge at once, and recreates missing ones. Skipped if the project has no forge. */
export async function mendAtOnce({ db, trx }: InTransaction, projectId: bigint): Promise<void> {
  const check = { forge_check_at: BigInt(Date.now()), forge_mends: mends.atOnce };
  await trx.updateTable('projects').set(check).where('id', '=', projectId).where('forge_id', 'is not', null).execute();
  await db.announce(trx, forgesTopic);
}

type Removal = Pick<ForgeRemovalRow, 'forge_id' | 'repository' | 'public_key' | 'hook_url'>;

export async function addRemoval(
  { db, trx, ids }: Pick<WriteContext, 'db' | 'trx' | 'ids'>,
  what: Removal,
  runAfter = Date.now(),
): Promise<bigint> {
  const id = ids.next();
  const row = { id, ...what, created_at: BigInt(Date.now()), run_after: BigInt(runAfter), tries: 0 };
  await trx.insertInto('forge_removals').values(row).execute();
  await db.announce(trx, forgesTopic);
  return id;
}

/**
 * Returns false if the removal has begun, so the part cannot be kept. With `any`, also ends a removal that has begun.
 */
export async function endRemoval(trx: Transaction, id: bigint, tried: 'none' | 'any' = 'none'): Promise<boolean> {
  const those = trx.deleteFrom('forge_removals').where('id', '=', id);
  const { numDeletedRows } = await (tried === 'any' ? those : those.where('tries', '=', 0)).executeTakeFirst();
  return numDeletedRows === 1n;
}

/**
 * A key recorded for removal is needed again. True if a removal may be under way anyway, perhaps under an older name of
 * the repository: then check the key again.
 */
export async function keepKey(
  { db, trx }: InTransaction,
  { repository, publicKey }: { repository: string; publicKey: string },
): Promise<boolean> {
  const those = trx.selectFrom('forge_removals').select(['id', 'repository']).where('public_key', '=', publicKey);
  const rows = await db.locked(those.orderBy('id'), 'forge_removals').execute();
  const here = rows.filter((row) => row.repository.toLowerCase() === repository.toLowerCase()).map(({ id }) => id);
  if (here.length > 0)
    await trx.updateTable('forge_removals').set({ public_key: '' }).where('id', 'in', here).execute();
  return rows.length > 0;
}

/** Also ends a user's wait for these checks. */
export async function putOffChecks(context: InTransaction, forgeId: bigint, until: number): Promise<void> {
  await setLinks(context, forgeId, { forge_check_at: BigInt(Math.ceil(until)) }, BigInt(Date.now()));
  const waitedFor = context.trx.updateTable('projects').where('forge_id', '=', forgeId);
  await waitedFor.where('forge_mends', '=', mends.atOnce).set({ forge_mends: mends.soon }).execute();
}

export async function putOffAll(context: InTransaction, forgeId: bigint, until: number): Promise<void> {
  await putOffChecks(context, forgeId, until);
  const removals = context.trx.updateTable('forge_removals').set({ run_after: BigInt(Math.ceil(until)) });
  await removals.where('forge_id', '=', forgeId).where('run_after', '<=', BigInt(Date.now())).execute();
}

export async function putOffRemoval(
  { db, trx }: InTransaction,
  id: bigint,
  { runAfter, tries }: { runAfter: number; tries: number },
): Promise<void> {
  const later = { run_after: BigInt(Math.ceil(runAfter)), tries };
  await trx.updateTable('forge_removals').set(later).where('id', '=', id).execute();
  await db.announce(trx, forgesTopic);
}

/** After this time another server may work at a forge. */
const heldMs = 10 * 60 * 1000;

export async function claimForge(db: Database, trx: Transaction): Promise<ForgeRow | undefined> {
  const now = BigInt(Date.now());
  const due = trx
    .selectFrom('forges')
    .selectAll()
    .where('held_until', '<=', now)
    .where((where) =>
      where.or([
        where.exists(dueRemovals(trx, now).whereRef('forge_id', '=', sql.ref('forges.id')).select('forge_removals.id')),
        where.exists(
          dueChecks(trx, now).whereRef('projects.forge_id', '=', sql.ref('forges.id')).select('projects.id'),
        ),
      ]),
    )
    .limit(1);
  const forge = await db.skipLocked(due, 'forges').executeTakeFirst();
  if (!forge) return undefined;
  const { numUpdatedRows } = await trx
    .updateTable('forges')
    .set({ held_until: now + BigInt(heldMs) })
    .where('id', '=', forge.id)
    .where('held_until', '=', forge.held_until)
    .executeTakeFirst();
  return numUpdatedRows === 1n ? forge : undefined;
}

/** Call after the clock was set back. Leases get their usual length, and postponed work is due now. */
export async function freeStrandedForges(db: Database): Promise<void> {
  const lease = BigInt(Date.now() + heldMs);
  const latest = BigInt(Date.now() + linkHeldMs);
  await makeStrandedDue(db, forgeRemovals, longestCheckMs);
  await makeStrandedDue(db, forgeChecks, longestCheckMs);
  await db.transaction(async (trx) => {
    await trx.updateTable('forges').set({ held_until: lease }).where('held_until', '>', lease).execute();
    const held = trx.selectFrom('projects').select('id').where('forge_held_until', '>', latest).orderBy('id');
    await db.locked(held, 'projects').execute();
    await trx.updateTable('projects').set({ forge_held_until: 0n }).where('forge_held_until', '>', latest).execute();
  });
}

/** Deletes a disconnected forge with its last removal. */
export async function freeForge({ db, trx }: InTransaction, id: bigint): Promise<void> {
  await trx.updateTable('forges').set({ held_until: 0n }).where('id', '=', id).execute();
  await forgetRetired(trx, id);
  await db.announce(trx, forgesTopic);
}

function dueRemovals(db: Queries, now: bigint) {
  return db.selectFrom('forge_removals').where('run_after', '<=', now);
}

function dueChecks(db: Queries, now: bigint) {
  return db.selectFrom('projects').where('forge_check_at', '<=', now);
}

const atOnce = 20;

export async function dueAt(db: Queries, forgeId: bigint) {
  const now = BigInt(Date.now());
  const removals = await dueRemovals(db, now)
    .selectAll()
    .where('forge_id', '=', forgeId)
    .orderBy('run_after')
    .limit(atOnce)
    .execute();
  const projects = await dueChecks(db, now)
    .leftJoin('hooks', (join) => join.onRef('hooks.project_id', '=', 'projects.id').on('hooks.forge_url', '!=', ''))
    .leftJoin('notifications', (join) =>
      join
        .onRef('notifications.project_id', '=', 'projects.id')
        .onRef('notifications.forge_id', '=', 'projects.forge_id'),
    )
    .select(['projects.id', 'projects.name', 'projects.owner_id', 'projects.ssh_public_key'])
    .select(['projects.forge_repository', 'projects.forge_repository_id', 'projects.forge_mends'])
    .select('projects.comment_commands')
    .select(['hooks.id as hook_id', 'hooks.forge_url', 'hooks.secret as hook_secret', 'notifications.id as target_id'])
    .where('projects.forge_id', '=', forgeId)
    .orderBy('projects.forge_mends', 'desc')
    .orderBy('projects.forge_check_at')
    .limit(atOnce)
    .execute();
  return { removals, projects };
}

export async function nextForgeWorkAt(db: Queries): Promise<number> {
  return Math.min(await nextDue(db, forgeRemovals), await nextDue(db, forgeChecks));
}

/** Whether due removals or repairs at a forge are still untried, or are under way. */
export async function isUntried(db: Queries, forgeId: bigint): Promise<boolean> {
  const now = BigInt(Date.now());
  const removals = dueRemovals(db, now).select('id').where('forge_id', '=', forgeId).where('tries', '=', 0);
  const projects = db.selectFrom('projects').select('id').where('forge_id', '=', forgeId);
  const held = db.selectFrom('forges').select('id').where('id', '=', forgeId).where('held_until', '>', now);
  const mending = projects.where('forge_mends', '=', mends.atOnce);
  for (const query of [removals, mending, held]) if ((await query.executeTakeFirst()) !== undefined) return true;
  return false;
}
