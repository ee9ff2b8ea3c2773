import { projectRoute } from '../api/route.ts';
import type { Call } from '../api/call.ts';
import type { Queries, Transaction } from '../db/open.ts';
import { sealIn } from '../db/sealing.ts';
import type { HookRow } from '../db/schema.ts';
import { ApiError } from '../../shared/errors.ts';
import { secretLocation } from '../inbound-hooks/endpoint.ts';
import { checkSoon } from '../lifecycle/forge-holds.ts';
import { addRemoval, mendAtOnce } from '../lifecycle/forges.ts';
import type { WriteContext } from '../lifecycle/write-context.ts';
import { timestamp, timestampOrNull } from '../../shared/lib/timestamps.ts';
import { columnsOf, valuesIn } from '../../shared/records/fields.ts';
import { hookFields, hookRecord, secretHookRecord } from '../../shared/records/trigger.ts';
import { randomSecret, withIdString, writeContextOf } from './common.ts';
import { byQuery, projectRecords } from './record-routes.ts';

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
  {
    id,
    url,
    secret,
    provider,
    comments,
  }: { id: bigint; url: string; secret: string; provider: HookRow['provider']; comments: boolean },
): Promise<void> {
  const { events } = hookFields;
  const hook: HookRow = {
    id,
    project_id: projectId,
    provider,
    events: events.toColumn([...events.fallback, ...(comments ? (['comment'] as const) : [])]),
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

/** The event `comment` is added to the hook of the project's connection, here now and at the forge at once. */
export async function wantComments(context: Pick<WriteContext, 'db' | 'trx'>, projectId: bigint): Promise<void> {
  const hook = await forgeHookOf(context.trx, projectId);
  if (!hook) return;
  const { events } = hookFields;
  const all = new Set([...events.fromColumn(hook.events), 'comment' as const]);
  const changed = { events: events.toColumn([...all]) };
  await context.trx.updateTable('hooks').set(changed).where('id', '=', hook.id).execute();
  await mendAtOnce(context, projectId);
}

export async function dropForgeHooks(trx: Transaction, projectId: bigint, stays = 0n): Promise<void> {
  const all = trx.deleteFrom('hooks').where('project_id', '=', projectId).where('forge_url', '!=', '');
  await all.where('id', '!=', stays).execute();
}

export const hooks = projectRecords({
  path: '/projects/:project_id/hooks',
  name: 'hook',
  access: 'maintainer',
  scope: 'projects',
  fields: hookFields,
  answer: hookRecord,
  /** The time of the last call is read from the newest delivery. It is not stored separately. */
  rows: ({ db, project }) =>
    byQuery(
      db
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
        .where('hooks.project_id', '=', project.id),
      'hooks.id',
    ),
  view,
  subject: (hook) => ({ ...hook, name: hook.provider }),
});

export const routes = [
  hooks.list('List the hooks of a project: the addresses that forges call to start builds'),
  hooks.create('Create a hook: an address for a forge to call; only this response has the secret', {
    creates: 'hooks',
    answer: secretHookRecord,
    showsSecrets: true,
    details: ({ input }) => input,
    async handle(call) {
      const { db, ids, project, input } = call;
      const secret = randomSecret();
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
  hooks.show('Fetch a hook'),
  hooks.change('Change the provider and the events of a hook; its address and secret stay', {
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
    ...hooks.ofOne,
    method: 'POST',
    path: `${hooks.one}/new_secret`,
    summary: 'Replace the secret of a hook; calls with the old one are refused from now on',
    answer: secretHookRecord,
    showsSecrets: true,
    audit: { action: 'hook.secret_replaced', subject: hooks.subject },
    async handle(call) {
      const { db, hook } = call;
      if (hook.forge_url !== '')
        throw ApiError.inWords(
          'resource_temporary_unavailable',
          'generic',
          'The connected forge uses the secret of this hook. For a new secret, delete the hook and connect the project again.',
        );
      const secret = randomSecret();
      const columns = { secret: await sealed(call, hook.id, secret) };
      await db.updateTable('hooks').set(columns).where('id', '=', hook.id).execute();
      return { ...view(hook, call), secret };
    },
  }),
  hooks.remove('Delete a hook and its deliveries; its build requests stay', {
    async handle(call) {
      const { db, hook, project } = call;
      const { forge_id: forge, forge_repository: repository } = project;
      await db.deleteFrom('hooks').where('id', '=', hook.id).execute();
      if (hook.forge_url !== '' && forge !== null) {
        const context = writeContextOf(call);
        await addRemoval(context, { forge_id: forge, repository, public_key: '', hook_url: hook.forge_url });
        await checkSoon(context, project.id);
      }
    },
  }),
];
