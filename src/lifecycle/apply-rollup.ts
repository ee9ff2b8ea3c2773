import { sql } from 'kysely';
import type { Transaction } from '../db/open.ts';
import { forEachKind, prepared, preparedChange } from '../db/prepared.ts';
import type { BuildRequestRow, BuildRow, CommitRow } from '../db/schema.ts';
import { carriedBy } from '../lib/carried.ts';
import { noteEnding } from './endings.ts';
import type { LifecycleEvent, WriteContext } from './write-context.ts';
import { buildRequestState, commitState, projectState, type BuildFact } from './rollup.ts';
import {
  buildMachine,
  buildRequestMachine,
  isFinal,
  type BuildState,
  type CommitState,
  type FetchState,
  type ProjectState,
} from './states.ts';

const countedColumns = [
  'id',
  'suite_id',
  'variant',
  'attempt',
  'failure_reason',
  'allow_failure',
  'retry',
  'series',
] as const satisfies (keyof BuildRow)[];
type CountedBuild = Pick<BuildRow, (typeof countedColumns)[number]> & { state: string };
type NoBuild = Record<keyof CountedBuild, null>;

/** The state of a commit or a request, with one row for each build that counts, or one row without builds. */
type CommitFacts = Pick<CommitRow, 'project_id' | 'build_state'> & (CountedBuild | NoBuild);
type RequestFacts = CommitFacts & Pick<BuildRequestRow, 'fetch'>;

/**
 * The newest attempt of each suite and variant, and the one before it. The query jumps through the index from one to the
 * next, so a commit that was built a thousand times costs no more than one that was built twice. How the attempts are
 * taken from the index differs: PostgreSQL does not know how few suites there are, and would join them with all builds;
 * SQLite has no lateral joins, and keeps the order of tables of a cross join.
 */
const factsOfCommit = forEachKind(({ kind }) =>
  prepared<{ commit: bigint }, CommitFacts>((db, value) => {
    const columns = sql.join(countedColumns.map((column) => sql.ref(`counted.${column}`)));
    const ofBuilt = sql`commit_id = ${value('commit')} and suite_id = built.suite and builds.variant = built.variant`;
    const counted =
      kind === 'postgres'
        ? sql`
            counted as (
              select newest.* from built cross join lateral (
                select * from builds where ${ofBuilt} order by attempt desc limit 2
              ) as newest
            )`
        : sql`
            newest(suite, variant, attempt) as (
              select suite, variant, (select max(attempt) from builds where ${ofBuilt}) from built
            ),
            counted as (
              select builds.* from newest cross join builds
              where commit_id = ${value('commit')} and suite_id = newest.suite and builds.variant = newest.variant
                and builds.attempt in (newest.attempt, newest.attempt - 1)
            )`;
    return {
      compile: () =>
        sql<CommitFacts>`
          with recursive suites_built(suite) as (
            select min(suite_id) from builds where commit_id = ${value('commit')}
            union all
            select (
              select min(suite_id) from builds where commit_id = ${value('commit')} and suite_id > suites_built.suite
            ) from suites_built where suite is not null
          ),
          built(suite, variant) as (
            select suite, (
              select min(variant) from builds where commit_id = ${value('commit')} and suite_id = suites_built.suite
            ) from suites_built where suite is not null
            union all
            select suite, (
              select min(builds.variant) from builds
              where commit_id = ${value('commit')} and suite_id = built.suite and builds.variant > built.variant
            ) from built where variant is not null
          ),
          ${counted}
          select commits.project_id, commits.build_state, counted.build_state as state, ${columns}
          from commits left join counted on true
          where commits.id = ${value('commit')}
        `.compile(db),
    };
  }),
);
const factsOfRequest = prepared<{ request: bigint }, RequestFacts>((db, value) =>
  db
    .selectFrom('build_requests')
    .leftJoin('builds', 'builds.build_request_id', 'build_requests.id')
    .select(['build_requests.project_id', 'build_requests.build_state', 'build_requests.fetch'])
    .select(countedColumns.map((column) => `builds.${column}` as const))
    .select('builds.build_state as state')
    .where('build_requests.id', '=', value('request'))
    .$castTo<RequestFacts>(),
);

/*
 * A commit and a request are locked before their builds are read, until the end of the transaction. So of two
 * transactions whose builds end at the same moment, the second sees the result of the first. Nothing waits for the
 * answer: every later query is answered after the lock is taken.
 */
const holdCommit = preparedChange<{ id: bigint }>((db, value) =>
  db.selectFrom('commits').select('id').where('id', '=', value('id')).forNoKeyUpdate(),
);
const holdRequest = preparedChange<{ id: bigint }>((db, value) =>
  db.selectFrom('build_requests').select('id').where('id', '=', value('id')).forNoKeyUpdate(),
);
/** One request and one commit, as in most transactions: the commit is locked after the request. */
const holdPair = preparedChange<{ request: bigint; commit: bigint }>((db, value) => ({
  compile: () =>
    sql`
      with request as materialized (
        select id from build_requests where id = ${value('request')} for no key update
      )
      select commits.id from commits
      where commits.id = ${value('commit')} and (select count(*) from request) >= 0 for no key update
    `.compile(db),
}));

/** The records that a transaction has locked already, or has created. */
const heldIn = carriedBy<Transaction, Set<bigint>>(() => new Set());

async function hold({ db, trx }: WriteContext, requestIds: readonly bigint[], commitIds: readonly bigint[]) {
  if (db.inTurns) return;
  const held = heldIn(trx);
  const requests = requestIds.filter((id) => !held.has(id));
  const commits = commitIds.filter((id) => !held.has(id));
  const [[request], [commit]] = [requests, commits];
  if (request !== undefined && commit !== undefined && requests.length + commits.length === 2)
    await holdPair(trx, { request, commit });
  else {
    for (const id of requests) await holdRequest(trx, { id });
    for (const id of commits) await holdCommit(trx, { id });
  }
  for (const id of [...requests, ...commits]) held.add(id);
}

/** A record that the transaction has created cannot be touched by others. */
export function isOurs({ trx }: WriteContext, id: bigint): void {
  heldIn(trx).add(id);
}

const moveCommit = preparedChange<{ id: bigint; from: string; state: string }>((db, value) =>
  db
    .updateTable('commits')
    .set({ build_state: value('state') })
    .where('id', '=', value('id'))
    .where('build_state', '=', value('from')),
);
const moveRequest = preparedChange<{ id: bigint; from: string; state: string }>((db, value) =>
  db
    .updateTable('build_requests')
    .set({ build_state: value('state') })
    .where('id', '=', value('id'))
    .where('build_state', '=', value('from')),
);

/** Until the transaction is over, no other adds builds to the commit, or reads its builds in order to do so. */
export async function holdForBuilds(context: WriteContext, requestId: bigint, commitId?: bigint): Promise<void> {
  await hold(context, [requestId], commitId === undefined ? [] : [commitId]);
}

interface RolledUp {
  /** The events of the states before the builds began that were made and begun together. */
  movedBefore: LifecycleEvent[];
  moved: LifecycleEvent[];
  /** The projects that have to be updated. */
  changed: bigint[];
}

/**
 * Calculates the states of commits and requests from their builds. `begun` are builds that were made a moment ago.
 * `allAsked` is called when everything is locked and asked for here, so that what is asked for next is sent with it.
 */
export async function rollUpCommits(
  context: WriteContext,
  commitIds: bigint[],
  requestIds: bigint[],
  begun: ReadonlySet<bigint> = new Set(),
  allAsked = () => {},
): Promise<RolledUp> {
  const { trx } = context;
  await hold(context, requestIds, commitIds);
  const asked = Promise.all([
    Promise.all(commitIds.map((commit) => factsOfCommit(context.db)(trx, { commit }))),
    Promise.all(requestIds.map((request) => factsOfRequest(trx, { request }))),
  ]);
  allAsked();
  const [ofCommits, ofRequests] = await asked;
  const movedBefore: LifecycleEvent[] = [];
  const moved: LifecycleEvent[] = [];
  const changed: bigint[] = [];
  /** Adds the events of the states that are new, one after the other; returns whether there is one. */
  const tell = (event: Omit<LifecycleEvent, 'state'>, stored: string, before: string, state: string): boolean => {
    if (before !== stored) movedBefore.push({ ...event, state: before, from: stored });
    if (state !== before) moved.push({ ...event, state, from: before });
    return state !== stored;
  };
  for (const [at, id] of commitIds.entries()) {
    const rows = ofCommits[at] ?? [];
    const [commit] = rows;
    if (!commit) throw new Error(`commit ${id} is gone`);
    const { project_id: projectId, build_state: from } = commit;
    const state = commitState(toFacts(rows), 'chosen');
    const before = begun.size === 0 ? state : commitState(toFacts(rows, begun), 'chosen');
    if (!tell({ projectId, subjectId: id, type: 'commit' }, from, before, state)) continue;
    await moveCommit(trx, { id, from, state });
    changed.push(projectId);
  }
  for (const [at, id] of requestIds.entries()) {
    const rows = ofRequests[at] ?? [];
    const [request] = rows;
    if (!request) throw new Error(`build request ${id} is gone`);
    const { project_id: projectId, build_state: from, fetch } = request;
    const state = buildRequestState(fetch as FetchState, toFacts(rows));
    const before = begun.size === 0 ? state : buildRequestState(fetch as FetchState, toFacts(rows, begun));
    if (!tell({ projectId, subjectId: id, type: 'build_request' }, from, before, state)) continue;
    await moveRequest(trx, { id, from, state });
    if (isFinal(buildRequestMachine, state)) noteEnding(context, { type: 'build_request', id, state });
  }
  return { movedBefore, moved, changed };
}

const findDecidingCommit = prepared<{ project: bigint }, Pick<CommitRow, 'id' | 'build_state'>>((db, value) =>
  db
    .selectFrom('commits')
    .select(['id', 'build_state'])
    .where('id', '=', (of) =>
      of.fn.coalesce(
        of.selectFrom('projects').select('trunk_commit_id').where('id', '=', value('project')),
        of
          .selectFrom('commits')
          .select('id')
          .where('project_id', '=', value('project'))
          .orderBy('id', 'desc')
          .limit(sql.lit(1)),
      ),
    ),
);

/** The commit that decides on the state of a project, and that state. */
export interface Decided {
  deciding: bigint | undefined;
  state: ProjectState;
}

/**
 * A project has the state of the newest commit of its default branch, or of the newest commit where that branch was
 * never built. The caller has locked the project's row, so the result overwrites nothing newer. Also returns the commit
 * that decided.
 */
export async function decidedState({ trx }: WriteContext, projectId: bigint): Promise<Decided> {
  const [commit] = await findDecidingCommit(trx, { project: projectId });
  return { deciding: commit?.id, state: projectState((commit?.build_state as CommitState | undefined) ?? null) };
}

/** Without `enqueued`, the builds as they are; with it, some of them as they were before they began. */
function toFacts(rows: readonly (CountedBuild | NoBuild)[], enqueued?: ReadonlySet<bigint>): BuildFact[] {
  return rows.flatMap((build): BuildFact[] =>
    build.suite_id === null
      ? []
      : [
          {
            suiteId: build.suite_id,
            variant: build.variant,
            attempt: build.attempt,
            state: enqueued?.has(build.id) ? buildMachine.initial : (build.state as BuildState),
            failureReason: build.failure_reason,
            isAllowedToFail: build.allow_failure === 1,
            isRetry: build.retry > 0,
            series: build.series,
          },
        ],
  );
}
