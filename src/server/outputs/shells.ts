import type { Database, Queries, Transaction } from '../db/open.ts';
import type { KeptBuildRow, ProjectRow, ShellRow } from '../db/schema.ts';
import { mostShells, mostShellsOfAccount } from '../../shared/domain/shell-limits.ts';
import type { Vault } from '../../shared/lib/vault.ts';
import { openKey } from '../lifecycle/kept-builds.ts';
import { subjectTopic, type WriteContext } from '../lifecycle/write-context.ts';

/**
 * The runner stores a shell's files (kept-builds.ts). A shell also ends if the runner or the user was gone for a while.
 */

const hour = 60 * 60 * 1000;
/** After this time without contact, the user or the runner counts as gone. */
export const graceMs = 45_000;
/** How often both sides are checked, and their presence recorded. */
export const checkEveryMs = 10_000;

export const locationTopic = (location: string): string => `location:${location}`;

/** Undefined if the runner, or the account there, is at its limit. */
export async function insertShell(
  { db, trx, ids }: WriteContext,
  project: Pick<ProjectRow, 'id' | 'owner_id'> & { owned: boolean },
  kept: KeptBuildRow,
  by: { id: bigint; via: string },
): Promise<ShellRow | undefined> {
  await db.holdRight(trx, 'shells', kept.location); // of two callers at the same time, the second counts the first
  const open = (await openShells(trx, kept.location)).filter((shell) => whyOver(shell) === undefined);
  const ofAccount = open.filter(({ owner_id: owner }) => owner === project.owner_id);
  if (open.length >= mostShells || ofAccount.length >= mostShellsOfAccount) return undefined;
  const now = BigInt(Date.now());
  const row: ShellRow = {
    id: ids.next(),
    project_id: project.id,
    build_id: kept.id,
    account_id: by.id,
    via: by.via,
    location: kept.location,
    state: 'waiting',
    reason: '',
    created_at: now,
    expires_at: kept.expires_at,
    client_seen_at: now,
    runner_seen_at: now,
    sees_limited: project.owned ? 1 : 0,
  };
  await trx.insertInto('shells').values(row).execute();
  await db.announce(trx, locationTopic(kept.location));
  return row;
}

async function openShells(trx: Transaction, location: string): Promise<(ShellRow & Pick<ProjectRow, 'owner_id'>)[]> {
  return trx
    .selectFrom('shells')
    .innerJoin('projects', 'projects.id', 'shells.project_id')
    .selectAll('shells')
    .select('projects.owner_id')
    .where('shells.location', '=', location)
    .where('shells.state', '!=', 'ended')
    .execute();
}

export type OpenedShell = ShellRow & Pick<KeptBuildRow, 'name'> & { key: string };

/** A shell that its runner does not run is taken again, because the last response may have been lost. */
export async function takeShells(
  trx: Transaction,
  vault: Vault,
  { location, holder, running, room }: { location: string; holder: string; running: readonly bigint[]; room: number },
): Promise<OpenedShell[]> {
  const found = await trx
    .selectFrom('shells')
    .innerJoin('kept_builds', 'kept_builds.id', 'shells.build_id')
    .selectAll('shells')
    .select(['kept_builds.name', 'kept_builds.key'])
    .where('shells.location', '=', location)
    .where('kept_builds.holder', '=', holder)
    .where('shells.state', '!=', 'ended')
    .orderBy('shells.id')
    .execute();
  const now = BigInt(Date.now());
  const taken = found.filter(({ id, ...row }) => !running.includes(id) && whyOver(row) === undefined).slice(0, room);
  for (const { id } of taken)
    await trx.updateTable('shells').set({ state: 'open', runner_seen_at: now }).where('id', '=', id).execute();
  return taken.map((shell) => ({ ...shell, key: openKey(vault, { id: shell.build_id, key: shell.key }) }));
}

export async function isAwaited(db: Queries, location: string, running: readonly bigint[]): Promise<boolean> {
  const waiting = db.selectFrom('shells').select('id').where('location', '=', location).where('state', '!=', 'ended');
  return (await waiting.execute()).some(({ id }) => !running.includes(id));
}

export function whyOver(
  { client_seen_at: client, runner_seen_at: runner, expires_at: end }: Omit<ShellRow, 'id'>,
  now = Date.now(),
): string | undefined {
  if (Number(end) <= now) return 'expired';
  if (Number(client) + graceMs <= now) return 'client_gone';
  if (Number(runner) + graceMs <= now) return 'runner_gone';
  return undefined;
}

/** The reason of a shell whose user may no longer have it. */
export const notAllowed = 'not_allowed';

export function isNew({ client_seen_at: client, created_at: opened }: ShellRow): boolean {
  return client === opened;
}

/** Writes at most once per `checkEveryMs`, except for a new shell. */
export async function noteClient(trx: Transaction, shell: ShellRow): Promise<void> {
  const now = BigInt(Date.now());
  if (!isNew(shell) && now - shell.client_seen_at <= BigInt(checkEveryMs)) return;
  const seen = now > shell.created_at ? now : shell.created_at + 1n;
  await trx.updateTable('shells').set({ client_seen_at: seen }).where('id', '=', shell.id).execute();
}

/** Writes at most once per `checkEveryMs`. */
export async function noteRunner(db: Database, { id, runner_seen_at: last }: ShellRow): Promise<void> {
  const now = BigInt(Date.now());
  if (now - last <= BigInt(checkEveryMs)) return;
  await db.transaction((trx) =>
    trx.updateTable('shells').set({ runner_seen_at: now }).where('id', '=', id).where('state', '!=', 'ended').execute(),
  );
}

export async function endShell(
  { db, trx }: Pick<WriteContext, 'db' | 'trx'>,
  id: bigint,
  reason: string,
): Promise<ShellRow | undefined> {
  const [ended] = await trx
    .updateTable('shells')
    .set({ state: 'ended', reason })
    .where('id', '=', id)
    .where('state', '!=', 'ended')
    .returningAll()
    .execute();
  if (ended) await db.announce(trx, subjectTopic(id));
  return ended;
}

export async function forgetOldShells(db: Database, now = Date.now()): Promise<void> {
  const before = BigInt(now - hour);
  await db.transaction(async (trx) => {
    const old = trx
      .selectFrom('shells')
      .select('id')
      .where((where) =>
        where.or([
          where('runner_seen_at', '<', before),
          where.and([where('client_seen_at', '<', before), where('state', '=', 'ended')]),
        ]),
      );
    await trx.deleteFrom('shells').where('id', 'in', db.skipLocked(old, 'shells')).execute();
  });
}
