import type { Queries, Transaction } from '../db/open.ts';
import type { HookDeliveryRow, HookRow, ProjectRow } from '../db/schema.ts';
import type { WriteContext } from '../lifecycle/write-context.ts';
import type { Facts } from './facts.ts';
import { decide, type DecidingProject, type Decision } from './decide.ts';
import { completeFacts } from './payload-readers.ts';

/** Only this file writes the table `hook_deliveries`. */

export type HookOfAccount = HookRow & Pick<ProjectRow, 'owner_id'>;

export async function hookById(db: Queries, id: bigint): Promise<HookOfAccount | undefined> {
  return db
    .selectFrom('hooks')
    .innerJoin('projects', 'projects.id', 'hooks.project_id')
    .selectAll('hooks')
    .select('projects.owner_id')
    .where('hooks.id', '=', id)
    .executeTakeFirst();
}

/** Skips a delivery that exists. Waits for a concurrent insert of it. */
async function insertOnce(trx: Transaction, delivery: HookDeliveryRow): Promise<boolean> {
  const inserted = await trx
    .insertInto('hook_deliveries')
    .values(delivery)
    .onConflict((conflict) => conflict.columns(['hook_id', 'delivery_key']).doNothing())
    .executeTakeFirst();
  return inserted.numInsertedOrUpdatedRows === 1n;
}

/** Decides, or returns the earlier outcome of the same delivery. If the hook was deleted, the foreign key fails. */
export async function receive(
  context: WriteContext,
  hookId: bigint,
  { key, facts }: { key: string | null; facts: Facts },
): Promise<HookDeliveryRow> {
  const { trx } = context;
  const delivery = newDelivery(context, hookId, { key, facts });
  if (!(await insertOnce(trx, delivery))) {
    const earlier = trx.selectFrom('hook_deliveries').selectAll().where('hook_id', '=', hookId);
    return earlier.where('delivery_key', '=', key).executeTakeFirstOrThrow();
  }
  const { events, forge_url, ...project } = await trx
    .selectFrom('hooks')
    .innerJoin('projects', 'projects.id', 'hooks.project_id')
    .select(['hooks.events', 'hooks.forge_url', 'projects.id', 'projects.owner_id', 'projects.clone_url'])
    .select(['projects.fork_builds', 'projects.cancel_superseded', 'projects.config_file', 'projects.build_twice'])
    .select(['projects.parameters', 'projects.comment_commands', 'projects.forge_id'])
    .select('projects.pull_request_builds')
    .where('hooks.id', '=', hookId)
    .executeTakeFirstOrThrow();
  return recordDecision(context, delivery, await decide(context, { id: hookId, events, forge_url }, project, facts));
}

/** Decides again, with the current settings. */
export async function replay(
  context: WriteContext,
  hook: HookRow,
  project: DecidingProject,
  delivery: HookDeliveryRow,
): Promise<HookDeliveryRow> {
  if (delivery.outcome === refusedOutcome) return delivery; // it was never proven, or its payload was unreadable
  const facts = JSON.parse(delivery.facts) as Facts;
  if (facts.comment) return delivery; // a comment counts once
  return recordDecision(context, delivery, await decide(context, hook, project, facts));
}

async function recordDecision(
  { trx }: WriteContext,
  delivery: HookDeliveryRow,
  { outcome, reason, requestId, results }: Decision,
): Promise<HookDeliveryRow> {
  const decision = { outcome, reason, build_request_id: requestId, results: JSON.stringify(results) };
  await trx.updateTable('hook_deliveries').set(decision).where('id', '=', delivery.id).execute();
  return { ...delivery, ...decision };
}

const refusedOutcome = 'refused';

function newDelivery(
  { ids }: Pick<WriteContext, 'ids'>,
  hookId: bigint,
  { key, facts }: { key: string | null; facts: Facts },
): HookDeliveryRow {
  return {
    id: ids.next(),
    hook_id: hookId,
    delivery_key: key,
    received_at: BigInt(Date.now()),
    facts: JSON.stringify(facts),
    outcome: refusedOutcome,
    reason: '',
    build_request_id: null,
    results: '[]',
  };
}

export async function noteUnreadable(
  { trx, ids }: Pick<WriteContext, 'trx' | 'ids'>,
  hookId: bigint,
  { event, reason }: { event: string; reason: string },
): Promise<HookDeliveryRow> {
  const delivery = { ...newDelivery({ ids }, hookId, { key: null, facts: completeFacts({ event }) }), reason };
  await trx.insertInto('hook_deliveries').values(delivery).execute();
  return delivery;
}

export async function countRefused(
  { db, trx, ids }: Omit<WriteContext, 'observers'>,
  hookId: bigint,
  { key, more, reason }: { key: string; more: number; reason: (count: number) => string },
): Promise<void> {
  const delivery = {
    ...newDelivery({ ids }, hookId, { key, facts: completeFacts({}) }),
    reason: reason(more),
    results: `${more}`,
  };
  if (await insertOnce(trx, delivery)) return;
  const same = trx.selectFrom('hook_deliveries').selectAll().where('hook_id', '=', hookId);
  const present = await db.locked(same.where('delivery_key', '=', key), 'hook_deliveries').executeTakeFirstOrThrow();
  const count = Number(present.results) + more;
  await trx
    .updateTable('hook_deliveries')
    .set({ reason: reason(count), results: `${count}` })
    .where('id', '=', present.id)
    .execute();
}

/** Some at a time. The newest of each hook stays: it shows when the hook was last called. */
export async function forgetHookDeliveries(trx: Transaction, before: bigint, most: number): Promise<number> {
  const old = trx
    .selectFrom('hook_deliveries as old')
    .select('old.id')
    .where('old.id', '<', before)
    .where((where) =>
      where.exists(
        where
          .selectFrom('hook_deliveries as newer')
          .select('newer.id')
          .whereRef('newer.hook_id', '=', 'old.hook_id')
          .whereRef('newer.id', '>', 'old.id'),
      ),
    )
    .orderBy('old.id')
    .limit(most);
  const { numDeletedRows } = await trx.deleteFrom('hook_deliveries').where('id', 'in', old).executeTakeFirst();
  return Number(numDeletedRows);
}
