import { onPage } from '../api/pages.ts';
import { projectRoute } from '../api/route.ts';
import type { HookDeliveryRow } from '../db/schema.ts';
import { replay } from '../inbound-hooks/hook-deliveries.ts';
import type { Facts } from '../inbound-hooks/facts.ts';
import type { Result } from '../inbound-hooks/decide.ts';
import { pageOf } from '../http/paging.ts';
import { timestamp } from '../../shared/lib/timestamps.ts';
import { hookDeliveryRecord } from '../../shared/records/trigger.ts';
import { listOf } from '../../shared/records/schema.ts';
import { orNotFound, withIdString, writeContextOf } from './common.ts';
import { hooks } from './hooks.ts';

function requestView(id: bigint | null) {
  return { build_request_id: id, build_request_id_str: id === null ? '' : String(id) };
}

function view(delivery: HookDeliveryRow) {
  const { event, action, sender, changes } = JSON.parse(delivery.facts) as Facts;
  const { ref = '', sha = '' } = changes[0] ?? {};
  const results = JSON.parse(delivery.results) as Result[] | number; // refused calls store only the number of results
  return {
    ...withIdString('id', delivery.id),
    event,
    action,
    ref,
    sha,
    sender,
    received_at: timestamp(delivery.received_at),
    outcome: delivery.outcome,
    reason: delivery.reason,
    ...requestView(delivery.build_request_id),
    changes: (typeof results === 'number' ? [] : results).map(({ request, ...result }) => ({
      ...result,
      ...requestView(request === null ? null : BigInt(request)),
    })),
  };
}

export const routes = [
  projectRoute({
    ...hooks.ofOne,
    access: 'viewer',
    method: 'GET',
    path: '/projects/:project_id/hooks/:hook_id/deliveries',
    summary: 'List the deliveries to a hook, with the outcome of each and its reason',
    paged: true,
    answer: listOf(hookDeliveryRecord),
    async handle({ db, hook, page }) {
      const query = db.selectFrom('hook_deliveries').selectAll().where('hook_id', '=', hook.id);
      return pageOf(page, (await onPage(query, 'id', page).execute()).map(view));
    },
  }),
  projectRoute({
    ...hooks.ofOne,
    method: 'POST',
    path: '/projects/:project_id/hooks/:hook_id/deliveries/:hook_delivery_id/replay',
    summary: 'Process a delivery again, with the present settings',
    answer: hookDeliveryRecord,
    audit: 'nothing',
    async handle(call) {
      const { db, project, hook, params } = call;
      const query = db.selectFrom('hook_deliveries').selectAll().where('hook_id', '=', hook.id);
      const delivery = orNotFound(await query.where('id', '=', params.hook_delivery_id).executeTakeFirst());
      return view(await replay(writeContextOf(call), hook, project, delivery));
    },
  }),
];
