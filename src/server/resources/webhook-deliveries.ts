import { sql } from 'kysely';
import { onPage } from '../api/pages.ts';
import { projectRoute } from '../api/route.ts';
import type { Queries } from '../db/open.ts';
import type { WebhookAttemptRow, WebhookDeliveryRow, NotificationRow } from '../db/schema.ts';
import { pageOf, type Page, type PageOf } from '../http/paging.ts';
import { timestamp } from '../../shared/lib/timestamps.ts';
import { sendAgain } from '../lifecycle/webhook-deliveries.ts';
import { deliveryRecord, type Delivery } from '../../shared/records/notification.ts';
import { listOf } from '../../shared/records/schema.ts';
import { writeContextOf, orNotFound, withIdString } from './common.ts';
import { notifications } from './notifications.ts';

type Shown = Pick<WebhookDeliveryRow, 'id' | 'event_type' | 'state' | 'created_at'>;

function view(delivery: Shown, attempts: readonly WebhookAttemptRow[]): Delivery {
  return {
    ...withIdString('id', delivery.id),
    type: delivery.event_type,
    state: delivery.state,
    created_at: timestamp(delivery.created_at),
    attempts: attempts.map(({ status, duration_ms, answer, error, created_at }) => ({
      status,
      duration_ms,
      answer,
      error,
      created_at: timestamp(created_at),
    })),
  };
}

async function attemptsAt(db: Queries, deliveries: Shown[]): Promise<WebhookAttemptRow[]> {
  if (deliveries.length === 0) return [];
  const ids = deliveries.map((delivery) => delivery.id);
  return db.selectFrom('webhook_attempts').selectAll().where('delivery_id', 'in', ids).orderBy('id').execute();
}

export async function deliveriesOf<Extra extends object = object>(
  db: Queries,
  { id }: NotificationRow,
  page: Page,
  viewPayload?: (payload: string) => Extra,
): Promise<PageOf<Delivery & Extra>> {
  const query = db
    .selectFrom('webhook_deliveries')
    .select(['id', 'event_type', 'state', 'created_at'])
    // Read only if shown: a thousand payloads are many megabytes.
    .select((of) => (viewPayload ? of.ref('payload').as('payload') : sql.lit('').as('payload')))
    .where('notification_id', '=', id);
  const deliveries = await onPage(query, 'id', page).execute();
  const attempts = Map.groupBy(await attemptsAt(db, deliveries), ({ delivery_id: delivery }) => delivery);
  return pageOf(
    page,
    deliveries.map((one) => ({ ...view(one, attempts.get(one.id) ?? []), ...(viewPayload?.(one.payload) as Extra) })),
  );
}

export const routes = [
  projectRoute({
    ...notifications.ofOne,
    access: 'viewer',
    method: 'GET',
    path: '/projects/:project_id/notifications/:notification_id/deliveries',
    summary: 'List the deliveries to the receiver, with every attempt and its response',
    paged: true,
    answer: listOf(deliveryRecord),
    handle: ({ db, notification, page }) => deliveriesOf(db, notification, page),
  }),
  projectRoute({
    ...notifications.ofOne,
    method: 'POST',
    path: '/projects/:project_id/notifications/:notification_id/deliveries/:delivery_id/redeliver',
    summary: 'Send a delivery again, under its own identifier',
    answer: deliveryRecord,
    audit: 'nothing',
    async handle(call) {
      const { db, project, notification, params } = call;
      const query = db.selectFrom('webhook_deliveries').selectAll().where('notification_id', '=', notification.id);
      const delivery = orNotFound(await query.where('id', '=', params.delivery_id).executeTakeFirst());
      return view(await sendAgain(writeContextOf(call), project.owner_id, delivery), await attemptsAt(db, [delivery]));
    },
  }),
];
