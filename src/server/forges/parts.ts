import type { Database } from '../db/open.ts';
import type { ForgeRemovalRow } from '../db/schema.ts';
import type { IdSource } from '../../shared/lib/ids.ts';
import { linkHeldMs } from '../lifecycle/forge-holds.ts';
import { addRemoval, endRemoval, putOffRemoval } from '../lifecycle/forges.ts';
import { ForgeError, type Forge, type InstalledHook, type WantedHook } from './forge.ts';

/** The key and the hook are recognized by content, not by ID. */
export interface ProjectParts {
  repository: string;
  title: string;
  publicKey: string;
  hook: WantedHook;
}

export interface MissingParts {
  key: boolean;
  hook: boolean;
  /** Hooks for the same address that are disabled or lack events. */
  stale: string[];
}

/** Without the comment, which some forges drop. */
function materialOf(key: string): string {
  return key.trim().split(/\s+/).slice(0, 2).join(' ');
}

export async function missingParts(forge: Forge, { repository, publicKey, hook }: ProjectParts): Promise<MissingParts> {
  const keys = await forge.keys(repository);
  const alike = (await forge.hooks(repository)).filter(({ url }) => url === hook.url);
  const isWhole = ({ active, hasComments }: InstalledHook): boolean => active && (hasComments || !hook.comments);
  return {
    key: !keys.some(({ key }) => materialOf(key) === materialOf(publicKey)),
    hook: !alike.some(isWhole),
    stale: alike.filter((one) => !isWhole(one)).map(({ id }) => id),
  };
}

/**
 * Adds the missing parts to the forge. A removal is recorded first. The caller deletes it with `endRemoval` in the
 * transaction that stores the parts. If one part fails, those already added are removed at once. Returns the removal's
 * ID, or undefined if nothing was missing.
 */
export async function putInPlace(
  { db, ids }: { db: Database; ids: IdSource },
  forge: Forge,
  { forgeId, parts, missing }: { forgeId: bigint; parts: ProjectParts; missing: MissingParts },
): Promise<bigint | undefined> {
  if (!missing.key && !missing.hook) return undefined;
  const { repository, title, publicKey, hook } = parts;
  const made = {
    forge_id: forgeId,
    repository,
    public_key: missing.key ? publicKey : '',
    hook_url: missing.hook ? hook.url : '',
  };
  const intent = await db.transaction((trx) => addRemoval({ db, trx, ids }, made, Date.now() + linkHeldMs));
  const begun = { id: intent, repository, public_key: '', hook_url: '' };
  try {
    if (missing.key) {
      begun.public_key = publicKey;
      await forge.addKey(repository, title, publicKey).catch((error: unknown) => {
        if (!isRefusal(error)) throw error;
        // A concurrent call for the same project may have added it, and owns it.
        begun.public_key = '';
        throw error.kind === 'invalid' ? keyInUse(error) : error;
      });
    }
    for (const id of missing.stale) await forge.removeHook(repository, id);
    begun.hook_url = missing.hook ? hook.url : '';
    if (missing.hook)
      await forge.addHook(repository, hook).catch((error: unknown) => {
        // An existing hook belongs to a concurrent call.
        if (isRefusal(error)) begun.hook_url = '';
        throw error;
      });
    return intent;
  } catch (error) {
    await takeBack(db, forge, begun);
    throw error;
  }
}

/** A refusal means that the forge created nothing. */
function isRefusal(error: unknown): error is ForgeError {
  return error instanceof ForgeError && error.kind !== 'unavailable' && error.kind !== 'not_a_forge';
}

function keyInUse({ message }: ForgeError): ForgeError {
  const text = `${message.replace(/\.?$/, '.')} If the key of the project is in use elsewhere at the forge, remove it there.`;
  return new ForgeError('invalid', text);
}

type Removal = Pick<ForgeRemovalRow, 'repository' | 'public_key' | 'hook_url'>;

async function takeBack(db: Database, forge: Forge, removal: Removal & { id: bigint }): Promise<void> {
  const isDone = await takeAway(forge, removal).then(
    () => true,
    () => false,
  );
  await db.transaction(async (trx) => {
    if (isDone) await endRemoval(trx, removal.id);
    else await putOffRemoval({ db, trx }, removal.id, { runAfter: Date.now() + 1000, tries: 1 });
  });
}

/** Removes a key and a hook at the forge if they exist, also after a rename of the repository. */
export async function takeAway(forge: Forge, removal: Removal): Promise<void> {
  try {
    await takeAwayFrom(forge, removal);
  } catch (error) {
    if (!(error instanceof ForgeError) || error.kind !== 'moved') throw error;
    const moved: unknown = await forge.repository(removal.repository).catch((refused: unknown) => refused);
    if (!(moved instanceof ForgeError) || moved.newName === '') throw error;
    await takeAwayFrom(forge, { ...removal, repository: moved.newName });
  }
}

async function takeAwayFrom(forge: Forge, { repository, public_key: key, hook_url: url }: Removal): Promise<void> {
  if (key !== '') {
    const keys = (await forge.keys(repository)).filter((one) => materialOf(one.key) === materialOf(key));
    for (const { id } of keys) await forge.removeKey(repository, id);
  }
  if (url !== '') {
    const hooks = (await forge.hooks(repository)).filter((one) => one.url === url);
    for (const { id } of hooks) await forge.removeHook(repository, id);
  }
}
