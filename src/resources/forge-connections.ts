import type { Call, WithCaller } from '../api/call.ts';
import type { VisibleProject } from '../auth/projects.ts';
import type { Queries, Transaction } from '../db/open.ts';
import { sealedLocation, type ForgeRow, type HookRow } from '../db/schema.ts';
import { ApiError } from '../errors.ts';
import type { Forge, ForgeRepository } from '../forges/forge.ts';
import { providers } from '../forges/index.ts';
import { titleOf } from '../forges/upkeep.ts';
import { missingParts, putInPlace, type MissingParts, type ProjectParts } from '../forges/parts.ts';
import { secretLocation } from '../inbound-hooks/endpoint.ts';
import {
  addRemoval,
  endRemoval,
  forgesOf,
  forgesTopic,
  isUntried,
  keepKey,
  mends,
  nextCheck,
  setLink,
  unlinked,
} from '../lifecycle/forges.ts';
import { createStatusTarget, deleteNotification } from '../lifecycle/notifications.ts';
import type { WriteContext } from '../lifecycle/write-context.ts';
import { forgeRepository } from '../records/forge.ts';
import { orNotFound } from './common.ts';
import { leadsTo, nameAt } from './forge-projects.ts';
import { forgeRefusal, opened } from './open-forge.ts';
import { dropForgeHooks, forgeHookOf, keepForgeHook, randomHookSecret } from './hooks.ts';

/**
 * Projects at connected forges. What a project needs there is made before the transaction that keeps it (`atForge`), and
 * kept in it (`keep`): all of it or nothing, also when a server dies in between (lifecycle/forges.ts).
 */

export type Asking = Omit<Call, 'db'> & WithCaller & { db: Queries };

/** The caller's own forge. */
export async function forgeNamed({ db, caller }: Asking, id: bigint): Promise<ForgeRow> {
  return orNotFound(await forgesOf(db, caller.id).where('id', '=', id).executeTakeFirst(), 'forge_id');
}

function wrong(words: string): ApiError {
  return ApiError.inWords('invalid_format', 'repository', words);
}

/** The repository, if a project can be made on it. */
export async function usableRepository(forge: Forge, row: ForgeRow, name: string): Promise<ForgeRepository> {
  const found = await forge.repository(name).catch((error: unknown) => {
    throw forgeRefusal(error, 'repository', row);
  });
  // A forge that answers for another one may have followed a new name, or be up to something.
  if (found.full_name.toLowerCase() !== name.toLowerCase())
    throw wrong(`The forge answered for ${found.full_name.slice(0, 200)}: the repository was renamed or moved.`);
  if (!forgeRepository.schema.pattern || !new RegExp(forgeRepository.schema.pattern, 'u').test(found.full_name))
    throw wrong('The forge told a name of the repository that cannot be used.');
  if (found.archived) throw wrong('The repository is archived, so nothing can be added to it.');
  if (!found.may_administer)
    throw wrong('The token may not administer the repository: keys and hooks are added by its administrators.');
  return found;
}

/** What was made at the forge and waits to be kept. */
export interface MadeAtForge {
  forge: ForgeRow;
  repository: ForgeRepository;
  publicKey: string;
  hook: { id: bigint; url: string; secret: string };
  /** What has to be crossed out; undefined where nothing was missing. */
  intent: bigint | undefined;
}

/** A new project, or the one that is there. */
interface Wanted {
  id: bigint;
  name: string;
  publicKey: string;
  /** The hook that the project has already. */
  hook?: HookRow | undefined;
  isNew: boolean;
}

const allIsMissing: MissingParts = { key: true, hook: true, stale: [] };

export async function atForge(
  call: Asking,
  { row, client, repository }: { row: ForgeRow; client: Forge; repository: ForgeRepository },
  { publicKey, hook: present, isNew, ...project }: Wanted,
): Promise<MadeAtForge> {
  const { database: db, ids, vault, origin } = call;
  const id = present?.id ?? ids.next();
  const secret = present ? vault.open(present.secret, secretLocation(id)) : randomHookSecret();
  const hook = { id, url: `${origin}/hooks/${id}`, secret };
  const parts: ProjectParts = { repository: repository.full_name, title: titleOf(project), publicKey, hook };
  try {
    const missing = isNew ? allIsMissing : await missingParts(client, parts);
    const intent = await putInPlace({ db, ids }, client, { forgeId: row.id, parts, missing });
    return { forge: row, repository, publicKey, hook, intent };
  } catch (error) {
    throw forgeRefusal(error, 'repository', row);
  }
}

/** What the project that exists has at its forge, for connecting it and for mending it. */
export async function connectionFor(
  call: Asking & { project: VisibleProject; input: { forge_id: bigint; repository: string } },
): Promise<{ made: MadeAtForge }> {
  const { project, db, vault, input } = call;
  const { forge_id: forgeId, repository: asked } = input;
  const row = await forgeNamed(call, forgeId);
  const own = project.forge_id === forgeId ? project.forge_repository : '';
  const name = asked || own || nameAt(row, project.clone_url);
  if (!new RegExp(forgeRepository.schema.pattern ?? '', 'u').test(name))
    throw wrong(`The address of the project does not tell the name of its repository at the forge.`);
  const client = opened(call, row);
  const repository = await usableRepository(client, row, name);
  if (!leadsTo(project.clone_url, repository))
    throw wrong(`The repository of the project is ${project.clone_url}, and not ${repository.full_name}.`);
  const publicKey = vault.open(project.ssh_public_key, keyLocation(project.id));
  const hook = await forgeHookOf(db, project.id);
  const wanted = { id: project.id, name: project.name, publicKey, hook, isNew: false };
  return { made: await atForge(call, { row, client, repository }, wanted) };
}

const keyLocation = (id: bigint): string => sealedLocation({ table: 'projects', column: 'ssh_public_key' }, id);

type Keeping = WriteContext & Pick<Call, 'vault'>;

/** Keeps what was made at the forge, with the project. Returns what is shown of that. */
export async function keep(context: Keeping, project: { id: bigint }, made: MadeAtForge) {
  const { trx, vault } = context;
  const { forge, repository, hook, intent } = made;
  if (intent !== undefined && !(await endRemoval(trx, intent)))
    throw ApiError.inWords('resource_temporary_unavailable', 'generic', 'The forge took too long. Try again.');
  const link = {
    forge_id: forge.id,
    forge_repository: repository.full_name,
    forge_state: 'connected',
    forge_state_reason: '',
  };
  const again = await keepKey(context, { repository: repository.full_name, publicKey: made.publicKey });
  const check = again
    ? { forge_check_at: BigInt(Date.now()), forge_mends: mends.atOnce }
    : { forge_check_at: nextCheck(), forge_mends: mends.none };
  await setLink(context, project.id, { ...link, ...check });
  if (again) await context.db.announce(trx, forgesTopic);
  await leaveOtherHooks(context, project.id, made);
  await keepForgeHook(context, project.id, { ...hook, provider: forge.provider });
  const targets = await targetsOf(trx, project.id).execute();
  const { api } = providers[forge.provider];
  const settings = { name: forge.provider, url: api(forge.url), repository: repository.full_name, forge_id: forge.id };
  const isTold = targets.some((one) => one.forge_id === forge.id && one.repository === repository.full_name);
  for (const { id } of isTold ? [] : targets) await deleteNotification(context, id);
  if (!isTold) await createStatusTarget(context, project.id, settings, { vault, secret: '' });
  return link;
}

/** Hooks at another address of this server, or that somebody else made in the same moment. */
async function leaveOtherHooks(context: WriteContext, projectId: bigint, { forge, repository, hook }: MadeAtForge) {
  const own = context.trx.selectFrom('hooks').select('forge_url').where('project_id', '=', projectId);
  const others = await own.where('forge_url', 'not in', ['', hook.url]).execute();
  const gone = { forge_id: forge.id, repository: repository.full_name, public_key: '' };
  for (const { forge_url: url } of others) await addRemoval(context, { ...gone, hook_url: url });
  await dropForgeHooks(context.trx, projectId, hook.id);
}

function targetsOf(db: Queries, projectId: bigint) {
  const targets = db.selectFrom('notifications').select(['id', 'forge_id', 'repository']);
  return targets.where('project_id', '=', projectId).where('forge_id', 'is not', null);
}

/** The target through which the connected forge of a project is told. */
export async function forgeTargetOf(db: Queries, projectId: bigint): Promise<bigint | null> {
  return (await targetsOf(db, projectId).executeTakeFirst())?.id ?? null;
}

type Linked = Pick<VisibleProject, 'id' | 'forge_id' | 'forge_repository' | 'ssh_public_key'>;

/** Has everything of a project taken away at its forge. */
export async function leaveForge({ vault, ...context }: Keeping, project: Linked): Promise<void> {
  const { id, forge_id: forgeId, forge_repository: repository } = project;
  if (forgeId === null) return;
  const { forge_url: hookUrl = '' } = (await forgeHookOf(context.trx, id)) ?? {};
  const publicKey = vault.open(project.ssh_public_key, keyLocation(id));
  await addRemoval(context, { forge_id: forgeId, repository, public_key: publicKey, hook_url: hookUrl });
}

/** The same, for a project that stays. */
export async function unlink(context: Keeping, project: Linked): Promise<typeof unlinked> {
  await setLink(context, project.id, unlinked);
  await leaveForge(context, project);
  await dropForgeHooks(context.trx, project.id);
  for (const { id } of await targetsOf(context.trx, project.id).execute()) await deleteNotification(context, id);
  return unlinked;
}

export async function projectsOfForge(trx: Transaction, forgeId: bigint): Promise<Linked[]> {
  const columns = ['id', 'forge_id', 'forge_repository', 'ssh_public_key'] as const;
  return trx.selectFrom('projects').select(columns).where('forge_id', '=', forgeId).orderBy('id').execute();
}

/** So long a caller waits for what is done at a forge once the answer is certain. */
const waitMs = 5000;

/** Waits until it was tried to do what is due at a forge, or for some seconds: most people look there next. */
export async function untilTried({ db, subscriptions }: Pick<Asking, 'db' | 'subscriptions'>, forgeId: bigint) {
  const deadline = performance.now() + waitMs;
  using watch = subscriptions.watch(forgesTopic);
  while (await isUntried(db, forgeId)) {
    const left = deadline - performance.now();
    if (left <= 0) return;
    await watch.changed(left);
  }
}
