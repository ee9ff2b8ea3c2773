import type { Call, WithCaller } from '../api/call.ts';
import type { VisibleProject } from '../auth/projects.ts';
import type { Queries, Transaction } from '../db/open.ts';
import { isSameRepository } from '../../shared/domain/git-address.ts';
import { sealedLocation, type ForgeRow, type HookRow } from '../db/schema.ts';
import { ApiError } from '../../shared/errors.ts';
import { findRepository, unusable, type KnownRepository } from '../forges/find-repository.ts';
import type { ForgeRepository, WantedHook } from '../forges/forge.ts';
import { gitOriginAt, httpsOrigin, isOpened } from '../forges/git-credential.ts';
import { providers } from '../forges/index.ts';
import { titleOf } from '../forges/upkeep.ts';
import { missingParts, putInPlace, type MissingParts, type ProjectParts } from '../forges/parts.ts';
import { secretLocation } from '../inbound-hooks/endpoint.ts';
import {
  addRemoval,
  endRemoval,
  forgesOf,
  isUntried,
  keepKey,
  mends,
  nextCheck,
  putOffRemoval,
  setLink,
  unlinked,
} from '../lifecycle/forges.ts';
import { forgesTopic, freeLink, holdLink, noteIncomplete } from '../lifecycle/forge-holds.ts';
import { createStatusTarget, deleteNotification } from '../lifecycle/notifications.ts';
import { holdHooks } from '../lifecycle/projects.ts';
import type { WriteContext } from '../lifecycle/write-context.ts';
import { addressesOf } from '../../shared/records/addresses.ts';
import { forgeRepository } from '../../shared/records/forge.ts';
import { orNotFound, randomSecret } from './common.ts';
import { leadsTo, nameAt, renamedAddress } from './forge-projects.ts';
import { opened, refusalAt } from './open-forge.ts';
import { dropForgeHooks, forgeHookOf, keepForgeHook } from './hooks.ts';

/**
 * A call creates the parts at the forge before the transaction (`atForge`), and stores them in it (`keep`). If the
 * transaction fails, the parts are removed.
 */

export type Asking = Omit<Call, 'db'> & WithCaller & { db: Queries };

/** One of the forges of the project's owner. */
export async function forgeNamed({ db }: Asking, owner: bigint, id: bigint): Promise<ForgeRow> {
  return orNotFound(await forgesOf(db, owner).where('id', '=', id).executeTakeFirst(), 'forge_id');
}

function wrong(message: string): ApiError {
  return ApiError.inWords('invalid_format', 'repository', message);
}

/** Finds the repository, and refuses it if it cannot take a project's key and hook. */
export async function usableRepository(call: Asking, row: ForgeRow, known: KnownRepository): Promise<ForgeRepository> {
  const found = await findRepository(opened(call, row), known).catch(async (error: unknown) => {
    throw await refusalAt(call, row, error);
  });
  if (!forgeRepository.schema.pattern || !new RegExp(forgeRepository.schema.pattern, 'u').test(found.full_name))
    throw wrong('The forge reports a repository name that cannot be used.');
  const why = unusable(found, known.id !== '');
  if (why !== '') throw wrong(why);
  return found;
}

export interface MadeAtForge {
  forge: ForgeRow;
  repository: ForgeRepository;
  publicKey: string;
  hook: { id: bigint } & WantedHook;
  /** The planned removal of the new parts, deleted once they are stored. Undefined if no part was missing. */
  intent: bigint | undefined;
  moved?: { from: string; to: string };
  /** When this call's exclusive hold on the project's parts ends. Undefined for a new project. */
  held?: bigint;
}

interface Wanted {
  id: bigint;
  name: string;
  publicKey: string;
  hook?: HookRow | undefined;
  isNew: boolean;
  comments: boolean;
}

const allIsMissing: MissingParts = { key: true, hook: true, stale: [] };

export async function atForge(
  call: Asking,
  { row, repository }: { row: ForgeRow; repository: ForgeRepository },
  { publicKey, hook: present, isNew, comments, ...project }: Wanted,
): Promise<MadeAtForge> {
  const { database: db, ids, vault, origin } = call;
  const client = opened(call, row);
  const id = present?.id ?? ids.next();
  const secret = present ? vault.open(present.secret, secretLocation(id)) : randomSecret();
  const hook = { id, url: `${origin}/hooks/${id}`, secret, comments };
  const parts: ProjectParts = { repository: repository.full_name, title: titleOf(project), publicKey, hook };
  try {
    const missing = isNew ? allIsMissing : await missingParts(client, parts);
    const intent = await putInPlace({ db, ids }, client, { forgeId: row.id, parts, missing });
    return { forge: row, repository, publicKey, hook, intent };
  } catch (error) {
    throw await refusalAt(call, row, error);
  }
}

export async function connectionFor(
  call: Asking & { project: VisibleProject; input: { forge_id?: bigint | undefined; repository: string } },
): Promise<{ made: MadeAtForge }> {
  const { project, vault, input } = call;
  const { forge_id: forgeId = project.forge_id, repository: asked } = input;
  if (forgeId === null) throw new ApiError('is_blank', 'forge_id');
  const row = await forgeNamed(call, project.owner_id, forgeId);
  const own = project.forge_id === forgeId ? linkOf(project) : undefined;
  const name = asked || own?.name || nameAt(row, project.clone_url);
  if (!new RegExp(forgeRepository.schema.pattern ?? '', 'u').test(name))
    throw wrong(`The repository’s name at the forge cannot be derived from the project’s address.`);
  const isOwn = own !== undefined && name.toLowerCase() === own.name.toLowerCase();
  const repository = await usableRepository(call, row, isOwn ? own : { name, id: '' }).catch(async (error: unknown) => {
    if (isOwn && error instanceof ApiError && error.fields.repository) await noteUnusable(call, project, error);
    throw error;
  });
  const moved = leadsTo(project.clone_url, repository) ? undefined : followed(project, own, repository);
  const publicKey = vault.open(project.ssh_public_key, keyLocation(project.id));
  const held = await holdSoon(call, project.id);
  try {
    const hook = await forgeHookOf(call.db, project.id);
    const comments = project.comment_commands === 1;
    const wanted = { id: project.id, name: project.name, publicKey, hook, isNew: false, comments };
    return { made: { ...(await atForge(call, { row, repository }, wanted)), held, ...(moved && { moved }) } };
  } catch (error) {
    await call.database.transaction((trx) => freeLink({ db: call.database, trx }, project.id, held));
    throw error;
  }
}

const linkOf = (project: VisibleProject): KnownRepository => ({
  name: project.forge_repository,
  id: project.forge_repository_id,
});

/** Returns the old and new address after a rename. The forge must report the same repository ID. */
function followed({ clone_url: from }: VisibleProject, own: KnownRepository | undefined, repository: ForgeRepository) {
  const isSame = own !== undefined && own.id !== '' && own.id === repository.id;
  const to = isSame ? renamedAddress(from, own.name, repository.full_name) : undefined;
  if (to === undefined || !leadsTo(to, repository))
    throw wrong(`The repository of the project is ${from}, and not ${repository.full_name}.`);
  return { from, to };
}

/** Stores the reason with the project, because the owner who requested the repair reads it there. */
async function noteUnusable(
  { database }: Asking,
  project: VisibleProject,
  { detail: words = '' }: ApiError,
): Promise<void> {
  await database.transaction((trx) => noteIncomplete(trx, project, words));
}

/** Waits for an exclusive hold. Two concurrent calls would undo or repeat each other's work. */
async function holdSoon({ database, subscriptions }: Asking, projectId: bigint): Promise<bigint> {
  const deadline = performance.now() + holdWithinMs;
  using watch = subscriptions.watch(forgesTopic);
  for (;;) {
    const held = await database.transaction((trx) => holdLink(trx, projectId));
    if (held !== undefined) return held;
    const left = deadline - performance.now();
    if (left <= 0)
      throw ApiError.inWords(
        'resource_temporary_unavailable',
        'generic',
        'Another user is connecting the project. Try again.',
      );
    await watch.changed(Math.min(left, 1000));
  }
}

const holdWithinMs = 30_000;

/** Removes the new parts at once after `keep` failed. */
export async function giveBack(call: Asking, projectId: bigint | undefined, made: MadeAtForge): Promise<void> {
  const { database: db } = call;
  const { intent, held } = made;
  await db.transaction(async (trx) => {
    if (intent !== undefined) await putOffRemoval({ db, trx }, intent, { runAfter: Date.now(), tries: 0 });
    if (held !== undefined && projectId !== undefined) await freeLink({ db, trx }, projectId, held);
  });
  if (intent !== undefined) await untilTried(call, made.forge.id);
}

const keyLocation = (id: bigint): string => sealedLocation({ table: 'projects', column: 'ssh_public_key' }, id);

type Keeping = WriteContext & Pick<Call, 'vault'>;

export async function storeConnection(context: Keeping, project: { id: bigint }, made: MadeAtForge) {
  const { trx, vault } = context;
  const { forge, repository, hook, intent, moved } = made;
  await holdHooks(context, project.id); // before the project, as in its deletion
  await leaveOtherHooks(context, project.id, made);
  await keepForgeHook(context, project.id, { ...hook, provider: forge.provider });
  if (intent !== undefined && !(await endRemoval(trx, intent)))
    throw ApiError.inWords('resource_temporary_unavailable', 'generic', 'The forge took too long. Try again.');
  const link = {
    forge_id: forge.id,
    forge_repository: repository.full_name,
    forge_repository_id: repository.id,
    forge_git_origin: gitOriginAt(forge, repository.https_url),
    forge_state: 'connected',
    forge_state_reason: '',
    ...(moved && addressesOf({ clone_url: moved.to })),
  };
  const again = await keepKey(context, { repository: repository.full_name, publicKey: made.publicKey });
  const check = again
    ? { forge_check_at: BigInt(Date.now()), forge_mends: mends.atOnce }
    : { forge_check_at: nextCheck(), forge_mends: mends.none };
  if (moved && !(await isStillAt(context, project.id, moved.from)))
    throw ApiError.inWords(
      'resource_temporary_unavailable',
      'generic',
      'Another user changed the address meanwhile. Try again.',
    );
  await setLink(context, project.id, { ...link, ...check }, made.held);
  if (again || made.held !== undefined) await context.db.announce(trx, forgesTopic);
  const targets = await targetsOf(trx, project.id).execute();
  const { api } = providers[forge.provider];
  const settings = { name: forge.provider, url: api(forge.url), repository: repository.full_name, forge_id: forge.id };
  const isTold = targets.some((one) => one.forge_id === forge.id && one.repository === repository.full_name);
  for (const { id } of isTold ? [] : targets) await deleteNotification(context, id);
  if (!isTold) await createStatusTarget(context, project.id, settings, { vault, secret: '' });
  return link;
}

/** Drops hooks at other addresses of this server, and hooks of concurrent calls. */
async function leaveOtherHooks(context: WriteContext, projectId: bigint, { forge, repository, hook }: MadeAtForge) {
  const own = context.trx.selectFrom('hooks').select('forge_url').where('project_id', '=', projectId);
  const others = await own.where('forge_url', 'not in', ['', hook.url]).execute();
  await dropForgeHooks(context.trx, projectId, hook.id);
  const gone = { forge_id: forge.id, repository: repository.full_name, public_key: '' };
  for (const { forge_url: url } of others) await addRemoval(context, { ...gone, hook_url: url });
}

/** False if a concurrent call changed the address. That change wins. */
async function isStillAt({ db, trx }: WriteContext, projectId: bigint, address: string): Promise<boolean> {
  const own = trx.selectFrom('projects').select('clone_url').where('id', '=', projectId);
  return (await db.locked(own, 'projects').executeTakeFirst())?.clone_url === address;
}

function targetsOf(db: Queries, projectId: bigint) {
  const targets = db.selectFrom('notifications').select(['id', 'forge_id', 'repository']);
  return targets.where('project_id', '=', projectId).where('forge_id', 'is not', null);
}

export async function forgeTargetOf(db: Queries, projectId: bigint): Promise<bigint | null> {
  return (await targetsOf(db, projectId).executeTakeFirst())?.id ?? null;
}

type Linked = Pick<VisibleProject, 'id' | 'forge_id' | 'forge_repository' | 'ssh_public_key'>;

/** True if the address names another repository, or uses git over HTTPS at another origin. */
export async function leadsAway(
  trx: Transaction,
  project: Pick<VisibleProject, 'forge_id' | 'forge_git_origin' | 'clone_url'>,
  address: string,
): Promise<boolean> {
  const { forge_id: id, forge_git_origin: confirmed, clone_url: before } = project;
  if (id === null) return false;
  if (!isSameRepository(before, address)) return true;
  if (['', httpsOrigin(before)].includes(httpsOrigin(address))) return false;
  const forge = await trx.selectFrom('forges').select('url').where('id', '=', id).executeTakeFirstOrThrow();
  return !isOpened(forge, confirmed, address);
}

/** Plans the removal of all the project's parts at its forge. */
export async function leaveForge(context: Keeping, project: Linked): Promise<void> {
  const removal = await removalFor(context, project);
  if (removal) await addRemoval(context, removal);
}

async function removalFor({ trx, vault }: Keeping, project: Linked) {
  const { id, forge_id, forge_repository: repository } = project;
  if (forge_id === null) return undefined;
  const { forge_url: hook_url = '' } = (await forgeHookOf(trx, id)) ?? {};
  return { forge_id, repository, public_key: vault.open(project.ssh_public_key, keyLocation(id)), hook_url };
}

/** Disconnects projects that are not deleted. If their forge is disconnected, `retire` locks it. */
export async function unlink(
  context: Keeping,
  projects: readonly Linked[],
  retire = async (): Promise<void> => {},
): Promise<typeof unlinked> {
  const { trx } = context;
  for (const { id } of projects) await holdHooks(context, id);
  const removals = [];
  for (const project of projects) removals.push(await removalFor(context, project));
  for (const { id } of projects) await dropForgeHooks(trx, id);
  await retire();
  for (const { id } of projects) await setLink(context, id, unlinked);
  for (const removal of removals) if (removal) await addRemoval(context, removal);
  for (const project of projects)
    for (const { id } of await targetsOf(trx, project.id).execute()) await deleteNotification(context, id);
  return unlinked;
}

export async function projectsOfForge(trx: Transaction, forgeId: bigint): Promise<Linked[]> {
  const columns = ['id', 'forge_id', 'forge_repository', 'ssh_public_key'] as const;
  return trx.selectFrom('projects').select(columns).where('forge_id', '=', forgeId).orderBy('id').execute();
}

/** The longest wait for work at a forge after the result is certain. */
const waitMs = 5000;

/** Waits some seconds for the first try of the forge's work, because most users check the forge next. */
export async function untilTried({ db, subscriptions }: Pick<Asking, 'db' | 'subscriptions'>, forgeId: bigint) {
  const deadline = performance.now() + waitMs;
  using watch = subscriptions.watch(forgesTopic);
  while (await isUntried(db, forgeId)) {
    const left = deadline - performance.now();
    if (left <= 0) return;
    await watch.changed(left);
  }
}
