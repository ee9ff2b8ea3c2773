import { sql, type ExpressionBuilder, type SqlBool } from 'kysely';
import type { Transaction } from '../db/open.ts';
import { prepared, preparedChange, preparedInsert } from '../db/prepared.ts';
import type { Schema } from '../db/schema.ts';
import { projectTopic, subjectTopic, type Happening, type Life } from './life.ts';
import { rollUpCommits, rollUpProject } from './settle.ts';
import { tellOfBuilds, tellOfDependency, type News } from './telling.ts';

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
 *  2. jobs, but for errands
 *  3. the build, deploy or dependency that a job is about, and its log
 *  4. build requests
 *  5. the right to record what was fetched for a project (`holdFetched`)
 *  6. commits
 *  7. projects
 *  8. notifications
 *  9. errands
 * 10. deliveries
 *
 * 4, 6 and 7 to 9 are this file's. New rows may be inserted at any time: nobody waits for a row that nobody has seen.
 */
interface Ledger {
  happenings: Happening[];
  commits: Set<bigint>;
  requests: Set<bigint>;
  projects: Set<bigint>;
  dependencies: Set<bigint>;
  /** The commits at the ends of trunks, by project. */
  trunks: Map<bigint, bigint | null>;
  /** Why requests came to nothing. */
  reasons: Map<bigint, string>;
}

const ledgers = new WeakMap<Transaction, Ledger>();

function ledgerOf(life: Life): Ledger {
  let ledger = ledgers.get(life.trx);
  if (!ledger) {
    ledger = emptyLedger();
    ledgers.set(life.trx, ledger);
    life.db.atEnd(life.trx, () => settle(life));
  }
  return ledger;
}

function emptyLedger(): Ledger {
  return {
    happenings: [],
    commits: new Set(),
    requests: new Set(),
    projects: new Set(),
    dependencies: new Set(),
    trunks: new Map(),
    reasons: new Map(),
  };
}

/** Notes that something happened. */
export function happened(life: Life, happening: Happening): void {
  ledgerOf(life).happenings.push(happening);
}

/** Notes that a dependency came to another state, for those who asked to be told. */
export function dependencyMoved(life: Life, id: bigint): void {
  ledgerOf(life).dependencies.add(id);
}

/** Notes which commit is the newest of a project's trunk; null where none of it was built. */
export function moveTrunk(life: Life, projectId: bigint, commitId: bigint | null): void {
  const { trunks, projects } = ledgerOf(life);
  trunks.set(projectId, commitId);
  projects.add(projectId);
}

/** Notes that nothing could be fetched for a request, and why, for those who asked to be told. */
export function fetchFailed(life: Life, requestId: bigint, reason: string): void {
  ledgerOf(life).reasons.set(requestId, reason);
}

/** Notes that these have to be brought into line with what they consist of. */
export function rollUp(
  life: Life,
  { commit, request, project }: { commit?: bigint; request?: bigint; project?: bigint },
): void {
  const { commits, requests, projects } = ledgerOf(life);
  if (commit !== undefined) commits.add(commit);
  if (request !== undefined) requests.add(request);
  if (project !== undefined) projects.add(project);
}

/** Does what was noted. The transaction does so at its end; who needs the states before that locks nothing afterwards. */
export async function settle(life: Life): Promise<void> {
  const noted = ledgers.get(life.trx);
  if (!noted) return;
  ledgers.set(life.trx, emptyLedger());
  const { moved, changed } = await rollUpCommits(life, inOrder(noted.commits), inOrder(noted.requests));
  const happenings = [...noted.happenings, ...moved].map((one) => ({
    ...one,
    reason: noted.reasons.get(one.subjectId),
  }));
  const byProject = Map.groupBy(happenings, ({ projectId }) => projectId);
  const behind = new Set([...noted.projects, ...changed]);
  for (const id of inOrder(new Set([...byProject.keys(), ...behind]))) {
    await record(life, id, byProject.get(id) ?? [], async () => {
      const trunk = noted.trunks.get(id);
      if (trunk !== undefined) await changeTrunk(life.trx, { id, trunk });
      return behind.has(id) ? rollUpProject(life, id) : undefined;
    });
  }
  for (const id of inOrder(noted.dependencies)) await tellOfDependency(life, id);
}

const changeTrunk = preparedChange<{ id: bigint; trunk: bigint | null }>((db, value) =>
  db
    .updateTable('projects')
    .set({ trunk_commit_id: value('trunk') })
    .where('id', '=', value('id')),
);

function inOrder(ids: Set<bigint>): bigint[] {
  return [...ids].toSorted((a, b) => (a < b ? -1 : Number(a > b)));
}

interface Taken {
  last_event: bigint;
  build_state: string;
  is_told: SqlBool;
}

/** Also says whether anybody asked to be told: in most projects nobody did, and nothing more is spent on it. */
const takeSequences = prepared<{ id: bigint; events: bigint }, Taken>((db, value) =>
  db
    .updateTable('projects')
    .set((of) => ({ last_event: of('last_event', '+', value('events')) }))
    .where('id', '=', value('id'))
    .returning((of) => ['last_event', 'build_state', of.exists(toBeTold(of)).as('is_told')]),
);

function toBeTold(of: ExpressionBuilder<Schema, 'projects'>) {
  return of
    .selectFrom('notifications')
    .select('notifications.id')
    .whereRef('notifications.project_id', '=', 'projects.id')
    .where('notifications.notifiable_type', '=', sql.lit('build'));
}

const insertEvents = preparedInsert('events');

/**
 * Writes down what happened in a project. Sequences are given out under the lock of its row, so they stand in the order
 * of the commits: who reads from one on misses nothing. `bringIntoLine` answers the commit that decided on its state.
 */
async function record(
  life: Life,
  id: bigint,
  happenings: News[],
  bringIntoLine: () => Promise<bigint | undefined>,
): Promise<void> {
  const { db, trx, ids } = life;
  const many = BigInt(happenings.length);
  const [project] = await takeSequences(trx, { id, events: many });
  if (!project) throw new Error(`project ${id} is gone`);
  const deciding = await bringIntoLine();
  const first = project.last_event - many + 1n;
  const events = happenings.map(({ subjectId, type, state }, at) => ({
    id: ids.next(),
    project_id: id,
    sequence: first + BigInt(at),
    subject_id: subjectId,
    type,
    state,
    created_at: BigInt(Date.now()),
  }));
  await insertEvents(trx, ...events);
  for (const { subjectId } of happenings) await db.announce(trx, subjectTopic(subjectId));
  if (happenings.length > 0) await db.announce(trx, projectTopic(id));
  if (project.is_told) await tellOfBuilds(life, id, withProjectStates(happenings, project.build_state, deciding));
}

/** What the project was when each happened: up to the event of the commit that decides, what it was before. */
function withProjectStates(happenings: News[], before: string, deciding: bigint | undefined): News[] {
  const decides = ({ type, subjectId }: News): boolean => type === 'commit' && subjectId === deciding;
  let projectState = happenings.some(decides) ? before : undefined;
  return happenings.map((news) => {
    if (decides(news)) projectState = news.state;
    return { ...news, projectState };
  });
}
