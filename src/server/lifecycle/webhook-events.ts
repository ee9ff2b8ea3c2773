import { sql } from 'kysely';
import type { Database, Transaction } from '../db/open.ts';
import { insertRows } from '../db/insert.ts';
import { organisationOf } from '../db/organisation-of.ts';
import type { WebhookDeliveryRow, NotificationRow, ProjectRow } from '../db/schema.ts';
import { exactJson } from '../../shared/lib/exact-json.ts';
import type { IdSource } from '../../shared/lib/ids.ts';
import { waitsForItsTurn } from '../../shared/domain/runner-slots.ts';
import { timestamp } from '../../shared/lib/timestamps.ts';
import { ensureDeliveryJobs } from '../queue/delivery-jobs.ts';
import { buildView } from '../views/build.ts';
import { buildRequestView, shownRequests } from '../views/build-request.ts';
import { commitView } from '../views/commit.ts';
import { dependencyView, relatedTo } from '../views/dependency.ts';
import { projectView, shownColumns } from '../views/project.ts';
import type { ToldDeed } from './forge-deeds.ts';
import type { LifecycleEvent } from './write-context.ts';
import { choose, choosesNothing, type Chosen, type NewsReport } from './news.ts';
import { notesAfter } from './pull-request-notes.ts';
import { requestReport } from './request-statuses.ts';
import { statusReport, type StatusReport } from './status-reports.ts';
import { buildMachine, buildRequestMachine, deliveryMachine, isFinal, type BuildRequestState } from './states.ts';

/**
 * The text, in the API's form, is stored in the transaction of the change, so it cannot be lost or change later.
 * Positions are assigned under the lock of the notification's row. So deliveries have the order in which transactions
 * commit.
 */
interface WriteContext {
  db: Database;
  trx: Transaction;
  ids: IdSource;
}

type ShownProject = Pick<ProjectRow, (typeof shownColumns)[number] | 'owner_id'> & { organisation_id: bigint | null };

type Taken = Pick<NotificationRow, 'id' | 'project_id' | 'notifiable_type' | 'last_position'>;

interface LinePosition {
  id: bigint;
  project_id: bigint;
  position: bigint;
}

interface Payload {
  type: string;
  subjectId?: bigint;
  text: (about: { id: string; created_at: string; project: ShownProject }) => object;
}

interface Batch {
  positions: readonly LinePosition[];
  payloads: readonly Payload[];
}

/** Besides the reports of events. */
export interface ToForges {
  leftOut: readonly StatusReport[];
  deeds: readonly ToldDeed[];
}

export interface ReportedEvent extends LifecycleEvent {
  reason?: string | undefined;
  sha?: string | undefined;
  words?: string | undefined;
  /** The project's state at that time, if it has changed since. */
  projectState?: string | undefined;
}

/** Requests are reported if their commit could not be fetched: they have no build. Forges get builds and requests. */
export async function notifyOfBuilds(
  context: WriteContext,
  projectId: bigint,
  events: readonly ReportedEvent[],
  { leftOut, deeds: asked }: ToForges,
): Promise<void> {
  const { trx } = context;
  const deeds = [...asked, ...(await notesAfter(trx, projectId, events))];
  const reported = events.filter(({ type, reason }) => type === 'build' || type === 'commit' || reason !== undefined);
  const statuses = inOrderForForges(events);
  const forForges = leftOut.length + statuses.length;
  const chosen = await choose(context, projectId, events);
  if (reported.length + forForges + chosen.length + deeds.length === 0) return;
  const counts = { project: projectId, many: BigInt(reported.length), statuses: BigInt(forForges) };
  const taken = await takeBuildPositions(trx, counts);
  const payloads = new Map<LifecycleEvent, Payload>();
  for (const news of reported)
    payloads.set(
      news,
      about(news.subjectId, webhook(`${news.type}.${news.state}`, await viewOf(trx, news), news.projectState)),
    );
  const { status: forges = [], build: receivers = [] } = Object.groupBy(taken, (one) => one.notifiable_type);
  await write(context, [
    { positions: positionsOf(receivers, reported.length), payloads: [...payloads.values()] },
    {
      positions: positionsOf(forges, forForges),
      payloads: forges.length > 0 ? [...leftOut.map(asPayload), ...(await statusesOf(trx, statuses))] : [],
    },
    ...(await batchesOf(context, chosen, payloads)),
    ...(await deedsFor(context, projectId, deeds)),
  ]);
}

/** For the status target of the project's connection. */
async function deedsFor(context: WriteContext, projectId: bigint, deeds: readonly ToldDeed[]): Promise<Batch[]> {
  if (deeds.length === 0) return [];
  const targets = context.trx
    .selectFrom('notifications')
    .innerJoin('projects', 'projects.id', 'notifications.project_id')
    .select('notifications.id')
    .where('projects.id', '=', projectId)
    .whereRef('notifications.forge_id', '=', 'projects.forge_id');
  const target = await targets.executeTakeFirst();
  if (!target) return [];
  const payloads = deeds.map(({ report, ...about }): Payload => ({ ...about, text: () => report }));
  return [{ positions: await takePositions(context, target.id, deeds.length), payloads }];
}

/** A webhook that chooses gets some of the events, and a notification of another type its messages. */
async function batchesOf(
  context: WriteContext,
  chosen: readonly Chosen[],
  webhooks: ReadonlyMap<LifecycleEvent, Payload>,
): Promise<Batch[]> {
  const batches: Batch[] = [];
  for (const { notification, events } of chosen) {
    const payloads = events.flatMap(({ event, reports }) => {
      if (notification.name === 'webhook') return webhooks.get(event) ?? [];
      return reports.map((report) =>
        about(event.subjectId, { type: `${event.type}.${event.state}`, text: () => report }),
      );
    });
    if (payloads.length > 0)
      batches.push({ positions: await takePositions(context, notification.id, payloads.length), payloads });
  }
  return batches;
}

function inOrderForForges(events: readonly ReportedEvent[]): ReportedEvent[] {
  const requests = events.filter(({ type }) => type === 'build_request');
  const isOver = ({ state }: ReportedEvent): boolean => isFinal(buildRequestMachine, state as BuildRequestState);
  return [
    ...requests.filter((news) => !isOver(news) && news.state !== 'fetching'),
    ...events.filter(({ type }) => type === 'build'),
    ...requests.filter(isOver),
  ];
}

const takeBuildPositions = (
  trx: Transaction,
  { statuses, many, project }: { project: bigint; many: bigint; statuses: bigint },
): Promise<Taken[]> =>
  trx
    .updateTable('notifications')
    .set((of) => ({
      last_position: of(
        'last_position',
        '+',
        sql<bigint>`case notifiable_type when 'status' then cast(${statuses} as bigint) else cast(${many} as bigint) end`,
      ),
    }))
    .where('project_id', '=', project)
    .where((of) =>
      of.or([
        of('notifiable_type', '=', 'status'),
        of.and([
          of('notifiable_type', '=', 'build'),
          of('name', '=', choosesNothing.name),
          of('on', 'in', choosesNothing.on),
          of('branches', '=', choosesNothing.branches),
        ]),
      ]),
    )
    .returning(['id', 'project_id', 'notifiable_type', 'last_position'])
    .execute();

function positionsOf(taken: readonly Omit<Taken, 'notifiable_type'>[], many: number): LinePosition[] {
  return taken.map(({ last_position: last, ...position }) => ({ ...position, position: last - BigInt(many) + 1n }));
}

function webhook(type: string, what: object, projectState?: string): Payload {
  return {
    type,
    text({ id, created_at, project }) {
      // The receiver acts for the owner. The key is encrypted in the project's row, and is added on sending.
      const shown = projectView({ ...project, build_state: projectState ?? project.build_state }, true);
      return { id, type, created_at, project: shown, ...what };
    },
  };
}

const about = (subjectId: bigint, payload: Payload): Payload => ({ ...payload, subjectId });

const asPayload = (report: StatusReport): Payload => ({ type: 'build.left_out', text: () => report });

async function statusesOf(trx: Transaction, events: readonly ReportedEvent[]): Promise<Payload[]> {
  const payloads: Payload[] = [];
  for (const news of events) {
    const report = await (news.type === 'build' ? statusReport(trx, news) : requestReport(trx, news));
    if (report) payloads.push(about(news.subjectId, { type: `${news.type}.${news.state}`, text: () => report }));
  }
  return payloads;
}

/** Shows the subject in the event's state, because it may have moved on in the same transaction. */
async function viewOf(trx: Transaction, { type, subjectId: id, state, reason }: ReportedEvent): Promise<object> {
  if (type === 'build') {
    const build = await trx.selectFrom('builds').selectAll().where('id', '=', id).executeTakeFirst();
    const begun = state === buildMachine.initial ? { started_at: null } : {};
    // The connected runners are unknown here. The API shows a more exact reason.
    const waits = state === buildMachine.initial ? waitsForItsTurn : '';
    return build ? { build: buildView({ ...build, ...begun, build_state: state }, waits) } : {};
  }
  if (type === 'commit') {
    const commit = await trx.selectFrom('commits').selectAll().where('id', '=', id).executeTakeFirst();
    return commit ? { commit: commitView({ ...commit, build_state: state }) } : {};
  }
  const request = await shownRequests(trx).where('build_requests.id', '=', id).executeTakeFirstOrThrow();
  return { build_request: buildRequestView(request, ''), reason };
}

export async function notifyOfDependency(context: WriteContext, dependencyId: bigint): Promise<void> {
  const { trx } = context;
  const dependencies = trx.selectFrom('dependencies').selectAll().where('id', '=', dependencyId);
  const dependency = await dependencies.executeTakeFirstOrThrow();
  const users = trx
    .selectFrom('suite_dependencies')
    .innerJoin('suites', 'suites.id', 'suite_dependencies.suite_id')
    .select('suites.project_id as id')
    .where('suite_dependencies.dependency_id', '=', dependencyId);
  const concerned = trx.selectFrom('projects').select('id').where('owner_id', '=', dependency.owner_id).union(users);
  const notifications = await trx
    .selectFrom('notifications')
    .select('id')
    .where('project_id', 'in', concerned)
    .where('notifiable_type', '=', 'dependency')
    .orderBy('id')
    .execute();
  const positions: LinePosition[] = [];
  // In a fixed order, so that two dependencies that change at the same time cannot deadlock.
  for (const { id } of notifications) positions.push(...(await takePosition(context, id)));
  if (positions.length === 0) return;
  const view = dependencyView(dependency, await relatedTo(trx, [dependencyId]));
  await write(context, [
    { positions, payloads: [about(dependencyId, webhook(`dependency.${dependency.state}`, { dependency: view }))] },
  ]);
}

/** `letters` are the recipients of a notification by e-mail. */
export async function enqueuePing(
  context: WriteContext,
  { id, name }: Pick<NotificationRow, 'id' | 'name'>,
  letters: readonly string[],
): Promise<void> {
  const report: Pick<NewsReport, 'state'> = { state: 'ping' };
  const own = name === 'email' ? letters.map((to) => ({ ...report, to })) : [report];
  const payloads = name === 'webhook' ? [webhook('ping', {})] : own.map((text) => ({ type: 'ping', text: () => text }));
  await write(context, [{ positions: await takePositions(context, id, payloads.length), payloads }]);
}

export const takePosition = (context: Pick<WriteContext, 'trx'>, notificationId: bigint): Promise<LinePosition[]> =>
  takePositions(context, notificationId, 1);

async function takePositions(
  { trx }: Pick<WriteContext, 'trx'>,
  notificationId: bigint,
  many: number,
): Promise<LinePosition[]> {
  const taken = await trx
    .updateTable('notifications')
    .set((of) => ({ last_position: of('last_position', '+', BigInt(many)) }))
    .where('id', '=', notificationId)
    .returning(['id', 'project_id', 'last_position'])
    .execute();
  return positionsOf(taken, many);
}

async function write({ db, trx, ids }: WriteContext, batches: readonly Batch[]): Promise<void> {
  const news = batches.flatMap(({ positions, payloads }) =>
    payloads.length === 0 ? [] : positions.map((position) => ({ position, payloads })),
  );
  if (news.length === 0) return;
  const projects = await projectsOf(
    trx,
    news.map(({ position }) => position),
  );
  const now = Date.now();
  const lines = news.flatMap((one) => {
    const project = projects.get(one.position.project_id);
    return project ? [{ project, ...one }] : [];
  });
  if (lines.length === 0) return;
  // Lock the delivery jobs first. A sender holds its job before it writes deliveries.
  await ensureDeliveryJobs(
    db,
    trx,
    ids,
    lines.map(({ project, position }) => ({ subjectId: position.id, accountId: project.owner_id })),
  );
  const deliveries = lines.flatMap(({ project, position, payloads }) =>
    payloads.map(({ type, text, subjectId = null }, at): WebhookDeliveryRow => {
      const id = ids.next();
      return {
        id,
        notification_id: position.id,
        position: position.position + BigInt(at),
        event_type: type,
        payload: exactJson(text({ id: String(id), created_at: timestamp(now), project })),
        state: deliveryMachine.initial,
        created_at: BigInt(now),
        since: BigInt(now),
        subject_id: subjectId,
      };
    }),
  );
  await insertRows(trx, 'webhook_deliveries', deliveries);
}

async function projectsOf(trx: Transaction, positions: LinePosition[]): Promise<Map<bigint, ShownProject>> {
  const ids = [...new Set(positions.map((position) => position.project_id))];
  const projects = await trx
    .selectFrom('projects')
    .select(['owner_id', ...shownColumns])
    .select(organisationOf)
    .where('id', 'in', ids)
    .execute();
  return new Map(projects.map((project) => [project.id, project]));
}
