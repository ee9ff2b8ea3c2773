import { sql } from 'kysely';
import { onPage } from '../api/pages.ts';
import { projectRoute } from '../api/route.ts';
import type { Queries } from '../db/open.ts';
import type { DeliveryAttemptRow, DeliveryRow, NotificationRow } from '../db/schema.ts';
import { pageOf, type Page, type PageOf } from '../http/paging.ts';
import * as schema from '../http/schema.ts';
import { timestamp } from '../lib/timestamps.ts';
import { sendAgain } from '../lifecycle/deliveries.ts';
import { idTwin, writeContextOf, orNotFound, twin } from './common.ts';
import { loadNotification } from './notifications.ts';

/** The fields of a delivery, for every kind of receiver. */
export const deliveryFields = {
  ...idTwin,
  type: schema.string,
  state: schema.string,
  created_at: schema.dateTime,
  attempts: schema.listOf(
    schema.record({
      status: schema.nullable(schema.integer),
      duration_ms: schema.integer,
      answer: schema.string,
      error: schema.string,
      created_at: schema.dateTime,
    }),
  ),
};

const answer = schema.record(deliveryFields);

type Shown = Pick<DeliveryRow, 'id' | 'event_type' | 'state' | 'created_at'>;

function view(delivery: Shown, attempts: readonly DeliveryAttemptRow[]) {
  return {
    ...twin('id', delivery.id),
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

async function attemptsAt(db: Queries, deliveries: Shown[]): Promise<DeliveryAttemptRow[]> {
  if (deliveries.length === 0) return [];
  const ids = deliveries.map((delivery) => delivery.id);
  return db.selectFrom('delivery_attempts').selectAll().where('delivery_id', 'in', ids).orderBy('id').execute();
}

type Viewed = ReturnType<typeof view>;

/** One page of a receiver's deliveries. */
export async function deliveriesOf(
  db: Queries,
  { id }: NotificationRow,
  page: Page,
  tell?: (payload: string) => object,
): Promise<PageOf<Viewed>> {
  const query = db
    .selectFrom('deliveries')
    .select(['id', 'event_type', 'state', 'created_at'])
    // It is read only where it is shown: a thousand of them are many megabytes.
    .select((of) => (tell ? of.ref('payload').as('payload') : sql.lit('').as('payload')))
    .where('notification_id', '=', id);
  const deliveries = await onPage(query, 'id', page).execute();
  const attempts = Map.groupBy(await attemptsAt(db, deliveries), ({ delivery_id: delivery }) => delivery);
  return pageOf(
    page,
    deliveries.map((one) => ({ ...view(one, attempts.get(one.id) ?? []), ...tell?.(one.payload) })),
  );
}

export const routes = [
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id/notifications/:notification_id/deliveries',
    access: 'both',
    scope: 'notifications',
    summary: 'List the deliveries to the receiver, with every attempt and its answer',
    paged: true,
    answer: schema.listOf(answer),
    load: loadNotification,
    handle: ({ db, notification, page }) => deliveriesOf(db, notification, page),
  }),
  projectRoute({
    method: 'POST',
    path: '/projects/:project_id/notifications/:notification_id/deliveries/:delivery_id/redeliver',
    access: 'both',
    scope: 'notifications',
    summary: 'Send a delivery again, under its own identifier',
    answer,
    load: loadNotification,
    audit: 'nothing',
    async handle(call) {
      const { db, project, notification, params } = call;
      const query = db.selectFrom('deliveries').selectAll().where('notification_id', '=', notification.id);
      const delivery = orNotFound(await query.where('id', '=', params.delivery_id).executeTakeFirst());
      return view(await sendAgain(writeContextOf(call), project.owner_id, delivery), await attemptsAt(db, [delivery]));
    },
  }),
];
