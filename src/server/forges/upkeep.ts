import { setTimeout as sleep } from 'node:timers/promises';
import { recordAudit } from '../auth/audit.ts';
import type { Database } from '../db/open.ts';
import { sealedLocation, type ForgeRemovalRow, type ForgeRow } from '../db/schema.ts';
import type { IdSource } from '../../shared/lib/ids.ts';
import type { Vault } from '../../shared/lib/vault.ts';
import {
  claimForge,
  dueAt,
  endRemoval,
  freeForge,
  freeStrandedForges,
  mends,
  nextForgeWorkAt,
  nextCheck,
  putOffAll,
  putOffChecks,
  putOffRemoval,
  setLink,
  tokenLocation,
} from '../lifecycle/forges.ts';
import { forgesTopic, freeLink, holdLink } from '../lifecycle/forge-holds.ts';
import { startDueWork } from '../queue/due.ts';
import { findRepository, isCalled, renamedInWords, unusable } from './find-repository.ts';
import { ForgeError, type Forge, type ForgeErrorKind } from './forge.ts';
import type { OpenForge } from './index.ts';
import { missingParts, putInPlace, takeAway } from './parts.ts';
import { noteSeen, stateAfter } from './seen.ts';
import { backOff } from '../../shared/lib/back-off.ts';

/**
 * Upkeep of connected forges: removes parts that are no longer needed, and checks once a day each project's key and
 * hook. Every server runs it, but only one at a time works at a forge.
 */
export interface UpkeepParts {
  db: Database;
  ids: IdSource;
  vault: Vault;
  openForge: OpenForge;
  onError: (error: unknown) => void;
  /** The pause between two requests of checks at one forge. */
  paceMs?: number | undefined;
}

const checkEveryMs = 15_000;
const mostAtOnce = 8;
const usualPaceMs = 500;
const awayMs = 15 * 60 * 1000;
const day = 24 * 60 * 60 * 1000;

export function startForgeUpkeep(parts: UpkeepParts): { close(): Promise<void> } {
  const { db, onError } = parts;
  return startDueWork<ForgeRow>(db, {
    topic: forgesTopic,
    everyMs: checkEveryMs,
    most: mostAtOnce,
    nextAt: () => nextForgeWorkAt(db.read),
    async claim() {
      const forge = await db.transaction((trx) => claimForge(db, trx));
      return forge ? [forge] : [];
    },
    serve: (forge, closing) => serve(parts, forge, closing),
    whenSetBack: () => freeStrandedForges(db),
    onError,
  });
}

type Checked = Awaited<ReturnType<typeof dueAt>>['projects'][number];

/** Does some of the work due at a forge. The rest is claimed again. */
async function serve(parts: UpkeepParts, forge: ForgeRow, closing: AbortSignal): Promise<void> {
  const { db, vault, openForge, paceMs = usualPaceMs } = parts;
  try {
    const access = { url: forge.url, token: vault.open(forge.token, tokenLocation(forge.id)) };
    const { removals, projects } = await dueAt(db.read, forge.id);
    const plain = openForge(forge.provider, access);
    for (const removal of removals) if (!closing.aborted) await remove(parts, plain, forge, removal);
    const paced = openForge(forge.provider, access, pace(paceMs));
    for (const project of projects) {
      if (closing.aborted) break;
      try {
        await checkProject(parts, project.forge_mends === mends.atOnce ? plain : paced, forge, project);
      } catch (error) {
        if (!(await noteTrouble(parts, forge, error))) throw error;
        break;
      }
    }
  } catch (error) {
    // Without this, work that fails by an error of this server would be due again at once, endlessly.
    await db.transaction((trx) => putOffAll({ db, trx }, forge.id, Date.now() + awayMs));
    throw error;
  } finally {
    await db.transaction((trx) => freeForge({ db, trx }, forge.id));
  }
}

/** One call per interval, also across callers. */
function pace(ms: number): () => Promise<void> {
  let next = performance.now() + ms;
  return async () => {
    const now = performance.now();
    const at = Math.max(now, next);
    next = at + ms;
    if (at > now) await sleep(at - now);
  };
}

async function remove(
  { db, ids }: UpkeepParts,
  client: Forge,
  forge: ForgeRow,
  removal: ForgeRemovalRow,
): Promise<void> {
  const tries = removal.tries + 1;
  // From here on, a project can no longer keep the parts: its `endRemoval` returns false.
  await db.transaction((trx) => putOffRemoval({ db, trx }, removal.id, { runAfter: Date.now() + 60_000, tries }));
  try {
    await takeAway(client, removal);
    await db.transaction((trx) => endRemoval(trx, removal.id, 'any'));
  } catch (error) {
    if (!(error instanceof ForgeError)) throw error;
    const isOver = Date.now() - Number(removal.created_at) > day;
    const wait = Math.max(error.retryAfterMs ?? 0, backOff(tries + 1, 1000, awayMs));
    await db.transaction(async (trx) => {
      if (!isOver) return putOffRemoval({ db, trx }, removal.id, { runAfter: Date.now() + wait, tries });
      await endRemoval(trx, removal.id, 'any');
      const details = {
        repository: removal.repository,
        ...(removal.public_key !== '' && { key: removal.public_key }),
        ...(removal.hook_url !== '' && { hook: removal.hook_url }),
        reason: error.message,
      };
      const subject = { id: forge.id, name: forge.url };
      await recordAudit(trx, ids, byForge, { action: 'forge.left_behind', subject, details });
    });
  }
}

const byForge = { actor: null, via: 'forge', application: null, address: null } as const;

async function checkProject(context: UpkeepParts, client: Forge, forge: ForgeRow, project: Checked): Promise<void> {
  const { db } = context;
  const held = await db.transaction((trx) => holdLink(trx, project.id));
  if (held === undefined) {
    const later = { forge_check_at: BigInt(Date.now() + heldMs) };
    await db.transaction((trx) => setLink({ trx }, project.id, later));
    return;
  }
  try {
    await checkHeld(context, client, forge, project);
  } finally {
    await db.transaction((trx) => freeLink({ db, trx }, project.id, held));
  }
}

/** A user is connecting the project right now and is done soon. */
const heldMs = 5000;

async function checkHeld(context: UpkeepParts, client: Forge, forge: ForgeRow, project: Checked): Promise<void> {
  const { db, ids, vault } = context;
  const { reason, kept } = await lookAt(context, client, forge, project).catch((error: unknown) => {
    // The forge refused this one repository. A retry would get the same answer.
    if (error instanceof ForgeError && refusals.includes(error.kind)) return { reason: error.message, kept: undefined };
    throw error;
  });
  await db.transaction(async (trx) => {
    if (forge.state !== 'connected')
      await noteSeen({ db, trx, ids, vault }, forge, { state: 'connected', state_reason: '' });
    if (kept !== undefined) await endRemoval(trx, kept);
    await setLink({ trx }, project.id, {
      forge_state: reason === '' ? 'connected' : 'incomplete',
      forge_state_reason: reason,
      forge_check_at: nextCheck(),
      forge_mends: mends.none,
    });
    await db.announce(trx, forgesTopic);
  });
}

const refusals: readonly ForgeErrorKind[] = ['not_found', 'forbidden', 'moved', 'invalid'];

async function lookAt(
  { db, ids, vault }: UpkeepParts,
  client: Forge,
  forge: ForgeRow,
  project: Checked,
): Promise<{ reason: string; kept: bigint | undefined }> {
  const reason = await wrongWith(client, project);
  const { hook_id: hookId, hook_secret: secret } = project;
  if (reason !== '' || hookId === null || secret === null) return { reason, kept: undefined };
  const key = vault.open(
    project.ssh_public_key,
    sealedLocation({ table: 'projects', column: 'ssh_public_key' }, project.id),
  );
  const hook = {
    url: project.forge_url ?? '',
    secret: vault.open(secret, sealedLocation({ table: 'hooks', column: 'secret' }, hookId)),
    comments: project.comment_commands === 1,
  };
  const parts = { repository: project.forge_repository, title: titleOf(project), publicKey: key, hook };
  const missing = await missingParts(client, parts);
  if (project.forge_mends === mends.none) return { reason: missingInWords(missing), kept: undefined };
  return { reason, kept: await putInPlace({ db, ids }, client, { forgeId: forge.id, parts, missing }) };
}

/** Gitea requires unique key titles, and projects of several accounts or servers may share a repository. */
export const titleOf = ({ id, name }: { id: bigint; name: string }): string =>
  `Headrace ${name.slice(0, 60).toWellFormed()} (${id})`;

export function missingInWords({ key, hook }: { key: boolean; hook: boolean }): string {
  if (key && hook) return 'The key and the hook are missing at the forge.';
  if (key) return 'The key is missing at the forge.';
  return hook ? 'The hook is missing at the forge, was switched off there, or lacks events.' : '';
}

/** A problem that no new key or hook would fix. Blank if there is none. */
async function wrongWith(client: Forge, project: Checked): Promise<string> {
  const { forge_repository: name, forge_repository_id: id } = project;
  const repository = await findRepository(client, { name, id });
  if (!isCalled(repository, name)) return renamedInWords(repository);
  const unusableFor = unusable(repository, true);
  if (unusableFor !== '') return unusableFor;
  if (project.hook_id === null) return 'The hook was deleted here.';
  return project.target_id === null ? 'The status target was deleted here.' : '';
}

/** Stores the forge's new state and pauses its work. False if the error is not about the forge. */
async function noteTrouble({ db, ids, vault }: UpkeepParts, forge: ForgeRow, error: unknown): Promise<boolean> {
  const seen = stateAfter(forge, error);
  if (!seen || !(error instanceof ForgeError)) return false;
  const wait = seen.state === 'refused' ? day : Math.max(error.retryAfterMs ?? 0, awayMs);
  await db.transaction(async (trx) => {
    await noteSeen({ db, trx, ids, vault }, forge, seen);
    await putOffChecks({ db, trx }, forge.id, Date.now() + wait);
    await db.announce(trx, forgesTopic);
  });
  return true;
}
