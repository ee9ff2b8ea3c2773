import { randomBytes } from 'node:crypto';
import { projectRoute } from '../api/route.ts';
import type { Call } from '../api/call.ts';
import type { Queries, Transaction } from '../db/open.ts';
import { sealIn } from '../db/sealing.ts';
import type { HookRow } from '../db/schema.ts';
import { ApiError } from '../../shared/errors.ts';
import { secretLocation } from '../inbound-hooks/endpoint.ts';
import { checkSoon } from '../lifecycle/forge-holds.ts';
import { addRemoval } from '../lifecycle/forges.ts';
import { timestamp, timestampOrNull } from '../../shared/lib/timestamps.ts';
import { columnsOf, valuesIn } from '../../shared/records/fields.ts';
import { hookFields, hookRecord, secretHookRecord } from '../../shared/records/trigger.ts';
import { listOf } from '../../shared/records/schema.ts';
import { destroyed, destroyedAnswer, orNotFound, withIdString, writeContextOf, type InProject } from './common.ts';

type Shown = HookRow & { last_delivery_at: bigint | null };

function view(hook: Shown, { origin }: Pick<Call, 'origin'>) {
  return {
    ...withIdString('id', hook.id),
    ...valuesIn(hookFields, hook),
    url: `${origin}/hooks/${hook.id}`,
    created_at: timestamp(hook.created_at),
    last_delivery_at: timestampOrNull(hook.last_delivery_at),
  };
}

/** The last call is the newest delivery. It is not stored separately. */
function hooksOf(db: Queries, projectId: bigint) {
  return db
    .selectFrom('hooks')
    .selectAll('hooks')
    .select((of) =>
      of
        .selectFrom('hook_deliveries')
        .select('received_at')
        .whereRef('hook_deliveries.hook_id', '=', 'hooks.id')
        .orderBy('hook_deliveries.id', 'desc')
        .limit(1)
        .as('last_delivery_at'),
    )
    .where('hooks.project_id', '=', projectId);
}

export async function loadHook(call: InProject<'hook_id'>): Promise<{ hook: Shown }> {
  const query = hooksOf(call.db, call.project.id).where('hooks.id', '=', call.params.hook_id);
  return { hook: orNotFound(await query.executeTakeFirst()) };
}

/** A hook has no name, so the audit log uses its provider. */
const asSubject = ({ hook }: { hook: Shown }) => ({ ...hook, name: hook.provider });

/**
 * In the form for GitLab's signing, which suits all providers, so a hook can change its provider and keep its secret.
 */
export function randomHookSecret(): string {
  return `whsec_${randomBytes(32).toString('base64')}`;
}

async function sealed({ db, vault }: { db: Transaction } & Pick<Call, 'vault'>, id: bigint, secret: string) {
  return sealIn(db, vault, secret, secretLocation(id));
}

export async function forgeHookOf(db: Queries, projectId: bigint): Promise<HookRow | undefined> {
  const hooks = db.selectFrom('hooks').selectAll().where('project_id', '=', projectId).where('forge_url', '!=', '');
  return hooks.orderBy('id').executeTakeFirst();
}

export async function keepForgeHook(
  { trx, vault }: { trx: Transaction } & Pick<Call, 'vault'>,
  projectId: bigint,
  { id, url, secret, provider }: { id: bigint; url: string; secret: string; provider: HookRow['provider'] },
): Promise<void> {
  const { events } = hookFields;
  const hook: HookRow = {
    id,
    project_id: projectId,
    provider,
    events: events.toColumn(events.fallback),
    secret: await sealIn(trx, vault, secret, secretLocation(id)),
    created_at: BigInt(Date.now()),
    forge_url: url,
  };
  const present = { provider, forge_url: url, secret: hook.secret };
  await trx
    .insertInto('hooks')
    .values(hook)
    .onConflict((conflict) => conflict.column('id').doUpdateSet(present))
    .execute();
}

export async function dropForgeHooks(trx: Transaction, projectId: bigint, stays = 0n): Promise<void> {
  const all = trx.deleteFrom('hooks').where('project_id', '=', projectId).where('forge_url', '!=', '');
  await all.where('id', '!=', stays).execute();
}

export const routes = [
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id/hooks',
    access: 'users',
    scope: 'projects',
    summary: 'List the hooks of a project: the addresses that forges call to start builds',

    answer: listOf(hookRecord),
    async handle(call) {
      const hooks = await hooksOf(call.db, call.project.id).orderBy('hooks.id').execute();
      return hooks.map((hook) => view(hook, call));
    },
  }),
  projectRoute({
    method: 'POST',
    path: '/projects/:project_id/hooks',
    access: 'users',
    scope: 'projects',
    summary: 'Create a hook: an address for a forge to call; only this answer has the secret',
    body: hookFields,
    creates: 'hooks',
    answer: secretHookRecord,
    showsSecrets: true,
    audit: { action: 'hook.created', details: ({ input }) => input },
    async handle(call) {
      const { db, ids, project, input } = call;
      const secret = randomHookSecret();
      const id = ids.next();
      const hook: HookRow = {
        id,
        project_id: project.id,
        ...columnsOf(hookFields, input),
        secret: await sealed(call, id, secret),
        created_at: BigInt(Date.now()),
        forge_url: '',
      };
      await db.insertInto('hooks').values(hook).execute();
      return { ...view({ ...hook, last_delivery_at: null }, call), secret };
    },
  }),
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id/hooks/:hook_id',
    access: 'users',
    scope: 'projects',
    summary: 'Fetch a hook',

    answer: hookRecord,
    load: loadHook,
    handle: async (call) => view(call.hook, call),
  }),
  projectRoute({
    method: 'PUT',
    path: '/projects/:project_id/hooks/:hook_id',
    access: 'users',
    scope: 'projects',
    summary: 'Change the provider and the events of a hook; its address and secret stay',
    body: hookFields,
    answer: hookRecord,
    load: loadHook,
    audit: { action: 'hook.updated', subject: asSubject },
    async handle(call) {
      const { db, hook, input } = call;
      const changed = columnsOf(hookFields, input);
      if (Object.keys(changed).length > 0) {
        await db.updateTable('hooks').set(changed).where('id', '=', hook.id).execute();
      }
      return view({ ...hook, ...changed }, call);
    },
  }),
  projectRoute({
    method: 'POST',
    path: '/projects/:project_id/hooks/:hook_id/new_secret',
    access: 'users',
    scope: 'projects',
    summary: 'Replace the secret of a hook; calls with the old one are refused from now on',
    answer: secretHookRecord,
    showsSecrets: true,
    load: loadHook,
    audit: { action: 'hook.secret_replaced', subject: asSubject },
    async handle(call) {
      const { db, hook } = call;
      if (hook.forge_url !== '')
        throw ApiError.inWords(
          'resource_temporary_unavailable',
          'generic',
          'The connected forge has the secret of this hook. Delete the hook and connect the project again for a new one.',
        );
      const secret = randomHookSecret();
      const columns = { secret: await sealed(call, hook.id, secret) };
      await db.updateTable('hooks').set(columns).where('id', '=', hook.id).execute();
      return { ...view(hook, call), secret };
    },
  }),
  projectRoute({
    method: 'DELETE',
    path: '/projects/:project_id/hooks/:hook_id',
    access: 'users',
    scope: 'projects',
    summary: 'Delete a hook and its deliveries; its build requests stay',
    answer: destroyedAnswer,
    load: loadHook,
    audit: { action: 'hook.deleted', subject: asSubject },
    async handle(call) {
      const { db, hook, project } = call;
      const { forge_id: forge, forge_repository: repository } = project;
      await db.deleteFrom('hooks').where('id', '=', hook.id).execute();
      if (hook.forge_url !== '' && forge !== null) {
        const context = writeContextOf(call);
        await addRemoval(context, { forge_id: forge, repository, public_key: '', hook_url: hook.forge_url });
        await checkSoon(context, project.id);
      }
      return destroyed;
    },
  }),
];
