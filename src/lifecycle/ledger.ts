import { sql, type ExpressionBuilder, type SqlBool } from 'kysely';
import type { Transaction } from '../db/open.ts';
import { forEachKind, prepared, preparedChange, preparedInsert } from '../db/prepared.ts';
import type { Schema } from '../db/schema.ts';
import { projectTopic, subjectTopic, type LifecycleEvent, type WriteContext } from './write-context.ts';
import { decidedState, rollUpCommits } from './apply-rollup.ts';
import { tellOfBuilds, tellOfDependency, type News } from './webhook-events.ts';

/**
 * What follows from the changes of a transaction is noted while it goes on and done at its end: commits, requests and
 * projects are brought into line with their builds, and what happened is numbered, written down and told. However many
 * builds a transaction changes, that is done once; and the rows that many transactions have to pass, above all the
 * project's, are held for the last moment alone.
 *
 * It is also what keeps transactions from waiting for each other in a circle. Whoever locks rows on PostgreSQL does so in
 * this order, and several of one kind in the order of their identifiers:
 *
 *  1. an idempotency key; the runner that asks; the turn of its account
 *  2. jobs, but for delivery jobs
 *  3. the build, deploy or dependency that a job is about, and its log
 *  4. the lane of a deploy, where its place in the queue is; build requests
 *  5. the right to record what was fetched for a project (`holdFetched`)
 *  6. commits
 *  7. projects
 *  8. notifications
 *  9. delivery jobs
 * 10. deliveries
 * 11. schedules; polls, and what was seen at them
 *
 * 4, 6 and 7 to 9 are this file's. New rows may be inserted at any time: nobody waits for a row that nobody has seen. And
 * whoever passes over what others hold waits for nobody: so a claim takes a turn and a job after the outcome of another
 * job, and the end of a compile lets go of the jobs that wait for it.
 */
interface Ledger {
  events: LifecycleEvent[];
  commits: Set<bigint>;
  requests: Set<bigint>;
  projects: Set<bigint>;
  dependencies: Set<bigint>;
  /** The commits at the ends of trunks, by project. */
  trunks: Map<bigint, bigint | null>;
  /** Why requests came to nothing. */
  reasons: Map<bigint, string>;
  /** What has to turn out well. */
  checks: Promise<void>[];
}

const ledgers = new WeakMap<Transaction, Ledger>();

function ledgerOf(context: WriteContext): Ledger {
  let ledger = ledgers.get(context.trx);
  if (!ledger) {
    ledger = emptyLedger();
    ledgers.set(context.trx, ledger);
    context.db.atEnd(context.trx, () => applyLedger(context));
  }
  return ledger;
}

function emptyLedger(): Ledger {
  return {
    events: [],
    commits: new Set(),
    requests: new Set(),
    projects: new Set(),
    dependencies: new Set(),
    trunks: new Map(),
    reasons: new Map(),
    checks: [],
  };
}

/** Notes that something happened. */
export function recordEvent(context: WriteContext, event: LifecycleEvent): void {
  ledgerOf(context).events.push(event);
}

/** Notes that a dependency came to another state, for those who asked to be told. */
export function dependencyMoved(context: WriteContext, id: bigint): void {
  ledgerOf(context).dependencies.add(id);
}

/** Notes which commit is the newest of a project's trunk; null where none of it was built. */
export function moveTrunk(context: WriteContext, projectId: bigint, commitId: bigint | null): void {
  const { trunks, projects } = ledgerOf(context);
  trunks.set(projectId, commitId);
  projects.add(projectId);
}

/** Notes that nothing could be fetched for a request, and why, for those who asked to be told. */
export function fetchFailed(context: WriteContext, requestId: bigint, reason: string): void {
  ledgerOf(context).reasons.set(requestId, reason);
}

/** Notes something that the transaction relies on and nobody waits for: where it fails, the transaction does. */
export function checkAtEnd(context: WriteContext, check: Promise<void>): void {
  check.catch(() => {}); // it is waited for at the end, if the transaction gets there
  ledgerOf(context).checks.push(check);
}

/** Notes that these have to be brought into line with what they consist of. */
export function rollUp(
  context: WriteContext,
  { commit, request, project }: { commit?: bigint; request?: bigint; project?: bigint },
): void {
  const { commits, requests, projects } = ledgerOf(context);
  if (commit !== undefined) commits.add(commit);
  if (request !== undefined) requests.add(request);
  if (project !== undefined) projects.add(project);
}

/** Does what was noted. The transaction does so at its end; who needs the states before that locks nothing afterwards. */
export async function applyLedger(context: WriteContext): Promise<void> {
  const noted = ledgers.get(context.trx);
  if (!noted) return;
  ledgers.set(context.trx, emptyLedger());
  const [{ moved, changed }] = await Promise.all([
    rollUpCommits(context, inOrder(noted.commits), inOrder(noted.requests)),
    ...noted.checks,
  ]);
  const events = [...noted.events, ...moved].map((one) => ({
    ...one,
    reason: noted.reasons.get(one.subjectId),
  }));
  const byProject = Map.groupBy(events, ({ projectId }) => projectId);
  const behind = new Set([...noted.projects, ...changed]);
  for (const id of inOrder(new Set([...byProject.keys(), ...behind]))) {
    const trunk = noted.trunks.get(id);
    await record(context, id, { news: byProject.get(id) ?? [], isBehind: behind.has(id), trunk });
  }
  for (const id of inOrder(noted.dependencies)) await tellOfDependency(context, id);
}

function inOrder(ids: Set<bigint>): bigint[] {
  return [...ids].toSorted((a, b) => (a < b ? -1 : Number(a > b)));
}

interface Held {
  last_event: bigint;
  build_state: string;
  is_told: SqlBool;
}

/** Also says whether anybody asked to be told: in most projects nobody did, and nothing more is spent on it. */
const holdProject = forEachKind((db) =>
  prepared<{ id: bigint }, Held>((queries, value) =>
    db.locked(
      queries
        .selectFrom('projects')
        .select(['last_event', 'build_state'])
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
    .set({ last_event: value('last_event'), build_state: value('build_state') })
    .where('id', '=', value('id')),
);
const changeTrunk = preparedChange<{ id: bigint; trunk: bigint | null }>((db, value) =>
  db
    .updateTable('projects')
    .set({ trunk_commit_id: value('trunk') })
    .where('id', '=', value('id')),
);
const insertEvents = preparedInsert('events');

interface Noted {
  news: News[];
  /** Its state may not be that of the commit which decides any more. */
  isBehind: boolean;
  /** The commit at the end of its trunk, where that has changed. */
  trunk: bigint | null | undefined;
}

/**
 * Writes down what happened in a project. Sequences are given out under the lock of its row, so they stand in the order
 * of the commits: who reads from one on misses nothing.
 */
async function record(context: WriteContext, id: bigint, { news, isBehind, trunk }: Noted): Promise<void> {
  const { db, trx, ids } = context;
  const held = holdProject(db)(trx, { id });
  if (trunk !== undefined) await changeTrunk(trx, { id, trunk });
  const [[project], decided] = await Promise.all([
    held,
    isBehind ? decidedState(context, id) : undefined, // answered when the project is held
  ]);
  if (!project) throw new Error(`project ${id} is gone`);
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
  await changeProject(trx, {
    id,
    last_event: project.last_event + BigInt(news.length),
    build_state: decided?.state ?? project.build_state,
  });
  await insertEvents(trx, ...events);
  for (const { subjectId } of news) await db.announce(trx, subjectTopic(subjectId));
  if (news.length > 0) await db.announce(trx, projectTopic(id));
  if (project.is_told) await tellOfBuilds(context, id, withProjectStates(news, project.build_state, decided?.deciding));
}

/** What the project was when each happened: up to the event of the commit that decides, what it was before. */
function withProjectStates(events: News[], before: string, deciding: bigint | undefined): News[] {
  const decides = ({ type, subjectId }: News): boolean => type === 'commit' && subjectId === deciding;
  let projectState = events.some(decides) ? before : undefined;
  return events.map((news) => {
    if (decides(news)) projectState = news.state;
    return { ...news, projectState };
  });
}
