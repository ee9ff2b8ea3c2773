import { sql, type ExpressionBuilder, type SqlBool } from 'kysely';
import type { Transaction } from '../db/open.ts';
import { forEachKind, prepared, preparedChange, preparedInsert } from '../db/prepared.ts';
import type { ProjectRow, Schema } from '../db/schema.ts';
import { carriedBy } from '../lib/carried.ts';
import { projectTopic, subjectTopic, type LifecycleEvent, type WriteContext } from './write-context.ts';
import { decidedState, rollUpCommits, type Decided } from './apply-rollup.ts';
import { projectState } from './rollup.ts';
import type { CommitState } from './states.ts';
import { tellOfBuilds, tellOfDependency, type News } from './webhook-events.ts';

/**
 * The consequences of a transaction's changes are collected during the transaction and applied at its end: the states of
 * commits, requests and projects are calculated from their builds, and events are numbered, stored and announced. This
 * is done once, however many builds the transaction changes. And rows that many transactions need, above all the
 * project's, are locked only for the last moment.
 *
 * It also prevents deadlocks. Every transaction locks rows on PostgreSQL in this order, and rows of one kind in the order
 * of their identifiers:
 *
 *  1. an idempotency key; a hook; the runner that asks; the turn of its account
 *  2. jobs, except delivery jobs; then what runners still have to bring of builds (`uploads`)
 *  3. the build, deploy or dependency of a job, and its log
 *  4. the lane of a deploy, with its place in the queue; build requests
 *  5. rights that a number stands for (`holdNumber`): to record a fetched commit of a project, to open a shell at a
 *     runner
 *  6. commits
 *  7. projects
 *  8. notifications
 *  9. delivery jobs
 * 10. deliveries
 * 11. schedules; polls and their listings
 * 12. the files of builds that runners keep
 * 13. shells
 *
 * This file locks 4, 6 and 7 to 9. New rows may be inserted at any time: no transaction waits for a row that it cannot
 * see. And a statement that skips locked rows never waits: so a claim takes a turn and a job after the outcome of another
 * job, and the end of a compile makes the jobs due that wait for it.
 */
interface Ledger {
  events: LifecycleEvent[];
  /** Events of work that began in the transaction that made it (`beginAtOnce`). */
  begun: LifecycleEvent[] | undefined;
  commits: Set<bigint>;
  requests: Set<bigint>;
  projects: Set<bigint>;
  dependencies: Set<bigint>;
  /** The newest commits of default branches, by project, and the names of these branches where they are known. */
  trunks: Map<bigint, Trunk>;
  /** Why the fetches of requests failed. */
  reasons: Map<bigint, string>;
  /** Checks that must succeed. */
  checks: Promise<void>[];
}

/** The newest built commit of a default branch, and the branch's name; null where they are not known. */
export interface Trunk {
  commit: bigint | null;
  branch: string | null;
}

/** One transaction has one ledger, however many write contexts are made for it. */
const notesOf = carriedBy<Transaction, { ledger?: Ledger }>(() => ({}));

function ledgerOf(context: WriteContext): Ledger {
  const notes = notesOf(context.trx);
  if (!notes.ledger) {
    notes.ledger = emptyLedger();
    context.db.atEnd(context.trx, () => applyLedger(context));
  }
  return notes.ledger;
}

function emptyLedger(): Ledger {
  return {
    events: [],
    begun: undefined,
    commits: new Set(),
    requests: new Set(),
    projects: new Set(),
    dependencies: new Set(),
    trunks: new Map(),
    reasons: new Map(),
    checks: [],
  };
}

/** Records an event. */
export function recordEvent(context: WriteContext, event: LifecycleEvent): void {
  const { begun, events } = ledgerOf(context);
  (begun ?? events).push(event);
}

/**
 * From here on, builds begin that the same transaction has made. All states that they lead to are told all the same, in
 * the order that they would have if the builds began in a transaction of their own.
 */
export function beginAtOnce(context: WriteContext): void {
  ledgerOf(context).begun ??= [];
}

/** Records that a dependency has changed its state, for its notifications. */
export function dependencyMoved(context: WriteContext, id: bigint): void {
  ledgerOf(context).dependencies.add(id);
}

/** Records the newest commit of a project's default branch; null where none of it was built. */
export function moveTrunk(context: WriteContext, projectId: bigint, trunk: Trunk): void {
  const { trunks, projects } = ledgerOf(context);
  trunks.set(projectId, trunk);
  projects.add(projectId);
}

/** Records why the fetch of a request failed, for the notifications of its project. */
export function fetchFailed(context: WriteContext, requestId: bigint, reason: string): void {
  ledgerOf(context).reasons.set(requestId, reason);
}

/** Adds a check that the transaction depends on without waiting for it. If the check fails, the transaction fails. */
export function checkAtEnd(context: WriteContext, check: Promise<void>): void {
  check.catch(() => {}); // it is awaited at the end, if the transaction gets there
  ledgerOf(context).checks.push(check);
}

/** Marks commits, requests and projects whose states have to be calculated again. */
export function rollUp(
  context: WriteContext,
  { commit, request, project }: { commit?: bigint; request?: bigint; project?: bigint },
): void {
  const { commits, requests, projects } = ledgerOf(context);
  if (commit !== undefined) commits.add(commit);
  if (request !== undefined) requests.add(request);
  if (project !== undefined) projects.add(project);
}

/**
 * Does everything that was recorded. The transaction calls it at its end. A caller that needs the states earlier must
 * lock nothing afterwards.
 */
export async function applyLedger(context: WriteContext): Promise<void> {
  const notes = notesOf(context.trx);
  const noted = notes.ledger;
  if (!noted) return;
  notes.ledger = emptyLedger();
  const begun = noted.begun ?? [];
  const begunBuilds = new Set(begun.map(({ subjectId }) => subjectId));
  const only = context.db.inTurns ? undefined : onlyProject(noted);
  let early: Promise<HeldProject> | undefined;
  // It is locked after everything else, but without a round trip of its own.
  const holdEarly = (): void => {
    if (only === undefined) return;
    early = holdWithState(context, only, { isBehind: true, trunk: noted.trunks.get(only) });
    early.catch(() => {}); // it is awaited below, if the transaction gets there
  };
  const rollingUp = rollUpCommits(context, inOrder(noted.commits), inOrder(noted.requests), begunBuilds, holdEarly);
  const [{ moved, movedBefore, changed }] = await Promise.all([rollingUp, ...noted.checks]);
  const events = [...noted.events, ...movedBefore, ...begun, ...moved].map((one) => ({
    ...one,
    reason: noted.reasons.get(one.subjectId),
  }));
  const byProject = Map.groupBy(events, ({ projectId }) => projectId);
  const behind = new Set([...noted.projects, ...changed]);
  for (const id of inOrder(new Set([...byProject.keys(), ...behind]))) {
    const wanted = { isBehind: behind.has(id), trunk: noted.trunks.get(id) };
    const held = await ((id === only ? early : undefined) ?? holdWithState(context, id, wanted));
    const decided = wanted.isBehind ? asMoved(held.decided, [...movedBefore, ...moved]) : undefined;
    await record(context, id, byProject.get(id) ?? [], { ...held, decided });
  }
  for (const id of inOrder(noted.dependencies)) await tellOfDependency(context, id);
}

/**
 * The project, where everything is about builds of one commit for one request, as in most transactions. Otherwise the
 * roll-up may come upon another project, which would have to be locked before this one.
 */
function onlyProject({ events, begun = [], commits, requests, projects }: Ledger): bigint | undefined {
  if (commits.size !== 1 || requests.size !== 1) return undefined;
  const all = [...events, ...begun];
  const [only, ...others] = new Set([...projects, ...all.map(({ projectId }) => projectId)]);
  return others.length === 0 && all.some(({ type }) => type === 'build') ? only : undefined;
}

/** The commit that decides may have been moved after it was read. */
function asMoved(decided: Decided | undefined, moved: readonly LifecycleEvent[]): Decided | undefined {
  const move = moved.findLast(({ type, subjectId }) => type === 'commit' && subjectId === decided?.deciding);
  return decided && move ? { ...decided, state: projectState(move.state as CommitState) } : decided;
}

function inOrder(ids: Set<bigint>): bigint[] {
  return [...ids].toSorted((a, b) => (a < b ? -1 : Number(a > b)));
}

const heldColumns = [
  'last_event',
  'build_state',
  'passed_since',
  'failed_since',
] as const satisfies (keyof ProjectRow)[];

type Held = Pick<ProjectRow, (typeof heldColumns)[number]> & { is_told: SqlBool };

/** Also returns whether the project has notifications: most have none, and then nothing more is done for them. */
const holdProject = forEachKind((db) =>
  prepared<{ id: bigint }, Held>((queries, value) =>
    db.locked(
      queries
        .selectFrom('projects')
        .select(heldColumns)
        .select((of) => of.exists(toBeTold(of)).as('is_told'))
        .where('id', '=', value('id')),
      'projects',
    ),
  ),
);

function toBeTold(of: ExpressionBuilder<Schema, 'projects'>) {
  return of
    .selectFrom('notifications')
    .select('notifications.id')
    .whereRef('notifications.project_id', '=', 'projects.id')
    .where('notifications.notifiable_type', 'in', [sql.lit('build'), sql.lit('status')]);
}

type Changed = Omit<Held, 'is_told'> & { id: bigint };

const changeProject = preparedChange<Changed>((db, value) =>
  db
    .updateTable('projects')
    .set({
      last_event: value('last_event'),
      build_state: value('build_state'),
      passed_since: value('passed_since'),
      failed_since: value('failed_since'),
    })
    .where('id', '=', value('id')),
);
const changeTrunk = preparedChange<{ id: bigint } & Trunk>((db, value) =>
  db
    .updateTable('projects')
    .set({
      trunk_commit_id: value('commit'),
      default_branch: sql<string>`coalesce(${value('branch')}, default_branch)`,
    })
    .where('id', '=', value('id')),
);
const insertEvents = preparedInsert('events');

/** A locked project, and what decides on its state. */
interface HeldProject extends Held {
  decided: Decided | undefined;
}

interface Wanted {
  /** Whether its state may differ from that of the commit that decides. */
  isBehind: boolean;
  /** The newest commit of its default branch, where that has changed. */
  trunk: Trunk | undefined;
}

/** All of this is sent at once, before anything is waited for. */
async function holdWithState(context: WriteContext, id: bigint, { isBehind, trunk }: Wanted): Promise<HeldProject> {
  const { db, trx } = context;
  const held = holdProject(db)(trx, { id });
  const changing = trunk === undefined ? undefined : changeTrunk(trx, { id, ...trunk });
  const [[project], decided] = await Promise.all([
    held,
    isBehind ? decidedState(context, id) : undefined, // answered when the project is locked
    changing,
  ]);
  if (!project) throw new Error(`project ${id} is gone`);
  return { ...project, decided };
}

/**
 * Stores the events of a project. Sequences are assigned under the lock of the project's row, so they have the order of
 * the commits: a reader that goes on from a sequence misses nothing.
 */
async function record(context: WriteContext, id: bigint, news: News[], project: HeldProject): Promise<void> {
  const { db, trx, ids } = context;
  const { decided } = project;
  const first = project.last_event + 1n;
  const events = news.map(({ subjectId, type, state }, at) => ({
    id: ids.next(),
    project_id: id,
    sequence: first + BigInt(at),
    subject_id: subjectId,
    type,
    state,
    created_at: BigInt(Date.now()),
  }));
  const state = decided?.state ?? project.build_state;
  await changeProject(trx, {
    id,
    last_event: project.last_event + BigInt(news.length),
    build_state: state,
    ...outcomeSince(project, state),
  });
  await insertEvents(trx, ...events);
  for (const { subjectId } of news) await db.announce(trx, subjectTopic(subjectId));
  if (news.length > 0) await db.announce(trx, projectTopic(id));
  if (project.is_told) await tellOfBuilds(context, id, withProjectStates(news, project.build_state, decided?.deciding));
}

/** Since when it passes or fails. States that say neither, such as `building`, change nothing about that. */
function outcomeSince({ passed_since: passed, failed_since: failed }: Held, state: string) {
  const now = BigInt(Date.now());
  if (state === 'passed') return { passed_since: passed ?? now, failed_since: null };
  if (state === 'failed' || state === 'errored') return { passed_since: null, failed_since: failed ?? now };
  return { passed_since: passed, failed_since: failed };
}

/** The state of the project at each event: up to the event of the commit that decides, the state before. */
function withProjectStates(events: News[], before: string, deciding: bigint | undefined): News[] {
  const decides = ({ type, subjectId }: News): boolean => type === 'commit' && subjectId === deciding;
  let projectState = events.some(decides) ? before : undefined;
  return events.map((news) => {
    if (decides(news)) projectState = news.state;
    return { ...news, projectState };
  });
}
