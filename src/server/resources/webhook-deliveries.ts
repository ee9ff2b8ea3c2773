import { sql } from 'kysely';
import { onPage } from '../api/pages.ts';
import { projectRoute } from '../api/route.ts';
import type { Queries } from '../db/open.ts';
import type { WebhookAttemptRow, WebhookDeliveryRow, NotificationRow } from '../db/schema.ts';
import { pageOf, type Page, type PageOf } from '../http/paging.ts';
import { timestamp } from '../../shared/lib/timestamps.ts';
import { deliveryMachine } from '../lifecycle/states.ts';
import { nextTryOf, sendAgain, tryLineNow } from '../lifecycle/webhook-deliveries.ts';
import { deliveryRecord, receiverRecord, type Delivery, type Receiver } from '../../shared/records/notification.ts';
import { listOf } from '../../shared/records/schema.ts';
import { writeContextOf, orNotFound, withIdString } from './common.ts';
import { notifications } from './notifications.ts';

type Shown = Pick<WebhookDeliveryRow, 'id' | 'event_type' | 'state' | 'created_at' | 'subject_id'>;

interface Subject {
  build_id: bigint | null;
  suite_name: string;
  variant: string;
  commit_id: bigint | null;
  ref: string;
}

const noSubject: Subject = { build_id: null, suite_name: '', variant: '', commit_id: null, ref: '' };

/** The builds and commits that deliveries are about. */
async function subjectsOf(db: Queries, deliveries: readonly Shown[]): Promise<(delivery: Shown) => Subject> {
  const idsOf = (kind: string): bigint[] =>
    deliveries.flatMap(({ event_type: type, subject_id: id }) => (type.startsWith(kind) && id !== null ? [id] : []));
  const [buildIds, commitIds] = [idsOf('build.'), idsOf('commit.')];
  const builds =
    buildIds.length === 0
      ? []
      : await db
          .selectFrom('builds')
          .innerJoin('commits', 'commits.id', 'builds.commit_id')
          .select(['builds.id', 'suite_name', 'variant', 'commit_id', 'ref'])
          .where('builds.id', 'in', buildIds)
          .execute();
  const commits =
    commitIds.length === 0
      ? []
      : await db.selectFrom('commits').select(['id', 'ref']).where('id', 'in', commitIds).execute();
  const found = new Map<bigint, Subject>([
    ...builds.map(({ id, ...build }) => [id, { ...build, build_id: id }] as const),
    ...commits.map(({ id, ref }) => [id, { ...noSubject, commit_id: id, ref }] as const),
  ]);
  return ({ subject_id: id }) => (id === null ? undefined : found.get(id)) ?? noSubject;
}

function view(delivery: Shown, subject: Subject, attempts: readonly WebhookAttemptRow[]): Delivery {
  const { suite_name, variant, ref } = subject;
  return {
    ...withIdString('id', delivery.id),
    type: delivery.event_type,
    ...withIdString('build_id', subject.build_id),
    suite_name,
    variant,
    ...withIdString('commit_id', subject.commit_id),
    commit_ref: ref,
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

async function attemptsAt(db: Queries, deliveries: readonly Pick<Shown, 'id'>[]): Promise<WebhookAttemptRow[]> {
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
    .select(['id', 'event_type', 'state', 'created_at', 'subject_id'])
    // Read only if shown: a thousand payloads are many megabytes.
    .select((of) => (viewPayload ? of.ref('payload').as('payload') : sql.lit('').as('payload')))
    .where('notification_id', '=', id);
  const deliveries = await onPage(query, 'id', page).execute();
  const attempts = Map.groupBy(await attemptsAt(db, deliveries), ({ delivery_id: delivery }) => delivery);
  const subjectOf = await subjectsOf(db, deliveries);
  return pageOf(
    page,
    deliveries.map((one) => ({
      ...view(one, subjectOf(one), attempts.get(one.id) ?? []),
      ...(viewPayload?.(one.payload) as Extra),
    })),
  );
}

const waiting = sql.lit(deliveryMachine.initial);
const mostCounted = 1000;

function isTaken({ status }: WebhookAttemptRow): boolean {
  return status !== null && status >= 200 && status < 300;
}

/**
 * What a receiver does with the delivery at the head of its queue, or, if none waits, with the newest. It is failing
 * from the first attempt that was not taken.
 */
export async function receiverOf(db: Queries, { id }: NotificationRow): Promise<Receiver> {
  const all = db.selectFrom('webhook_deliveries').select(['id', 'state']).where('notification_id', '=', id);
  const line = all.where('state', '=', waiting).orderBy('position');
  const head =
    (await line.limit(1).executeTakeFirst()) ?? (await all.orderBy('id', 'desc').limit(1).executeTakeFirst());
  const attempts = head ? await attemptsAt(db, [head]) : [];
  const failures = head?.state === 'delivered' ? [] : attempts.slice(attempts.findLastIndex(isTaken) + 1);
  const [first, last] = [failures[0], failures.at(-1)];
  const nextTry = await nextTryOf(db, id);
  return {
    failing_since: first ? timestamp(first.created_at) : null,
    status: last?.status ?? null,
    answer: last?.answer ?? '',
    error: last?.error ?? '',
    tries: failures.length,
    next_try_at: first && nextTry !== undefined ? timestamp(nextTry) : null,
    waiting: (await line.select('id').limit(mostCounted).execute()).length,
  };
}

/** Tries the whole queue of a receiver at once. */
export async function tryNow(
  call: Parameters<typeof writeContextOf>[0],
  notification: NotificationRow,
): Promise<Receiver> {
  await tryLineNow(writeContextOf(call), notification.id);
  return receiverOf(call.db, notification);
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
      const sent = await sendAgain(writeContextOf(call), project.owner_id, delivery);
      const subjectOf = await subjectsOf(db, [sent]);
      return view(sent, subjectOf(sent), await attemptsAt(db, [delivery]));
    },
  }),
  projectRoute({
    ...notifications.ofOne,
    method: 'GET',
    access: 'viewer',
    path: '/projects/:project_id/notifications/:notification_id/receiver',
    summary: 'Whether the receiver takes its calls: since when it does not, what it answered, when the next try is',
    answer: receiverRecord,
    handle: ({ db, notification }) => receiverOf(db, notification),
  }),
  projectRoute({
    ...notifications.ofOne,
    method: 'POST',
    path: '/projects/:project_id/notifications/:notification_id/try_now',
    summary: 'Try all waiting deliveries to the receiver now',
    answer: receiverRecord,
    audit: 'nothing',
    handle: (call) => tryNow(call, call.notification),
  }),
];
