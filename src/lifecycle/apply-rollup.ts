import { sql } from 'kysely';
import { forEachKind, prepared, preparedChange } from '../db/prepared.ts';
import type { BuildRequestRow, BuildRow, CommitRow } from '../db/schema.ts';
import type { LifecycleEvent, WriteContext } from './write-context.ts';
import { buildRequestState, commitState, projectState, type BuildFact } from './rollup.ts';
import type { BuildState, CommitState, FetchState } from './states.ts';

type CountedBuild = Pick<BuildRow, 'suite_id' | 'attempt' | 'build_state' | 'failure_reason'>;

/**
 * Of each suite the newest attempt and the one before it, found by leaping through the index from suite to suite: a
 * commit that was built a thousand times costs what one costs that was built twice.
 */
const countedOfCommit = prepared<{ commit: bigint }, CountedBuild>((db, value) =>
  db
    .withRecursive('built(suite)', (cte) =>
      cte
        .selectFrom('builds')
        .select((of) => of.fn.min('suite_id').as('suite'))
        .where('commit_id', '=', value('commit'))
        .unionAll(
          cte
            .selectFrom('built')
            .select((of) =>
              of
                .selectFrom('builds')
                .select((within) => within.fn.min('suite_id').as('suite'))
                .where('commit_id', '=', value('commit'))
                .whereRef('builds.suite_id', '>', 'built.suite')
                .as('suite'),
            )
            .where('built.suite', 'is not', null) as never,
        ),
    )
    .selectFrom('built')
    .crossJoin('builds') // SQLite keeps this order, and would choose the wrong one for an inner join
    .select(['builds.suite_id', 'builds.attempt', 'builds.build_state', 'builds.failure_reason'])
    .whereRef('builds.suite_id', '=', 'built.suite')
    .where('builds.commit_id', '=', value('commit'))
    .where('builds.attempt', '>=', (of) =>
      of
        .selectFrom('builds as newer')
        .select(sql<number>`max(newer.attempt) - 1`.as('attempt'))
        .where('newer.commit_id', '=', value('commit'))
        .whereRef('newer.suite_id', '=', 'built.suite'),
    ),
);

/*
 * A commit and a request are held from before their builds are looked at until the transaction is over: of two whose
 * builds end at the same moment, the second sees what the first one left.
 */
const holdCommit = forEachKind((db) =>
  prepared<{ id: bigint }, Pick<CommitRow, 'id' | 'project_id' | 'build_state'>>((queries, value) =>
    db.locked(
      queries.selectFrom('commits').select(['id', 'project_id', 'build_state']).where('id', '=', value('id')),
      'commits',
    ),
  ),
);
const holdRequest = forEachKind((db) =>
  prepared<{ id: bigint }, Pick<BuildRequestRow, 'id' | 'project_id' | 'build_state' | 'fetch'>>((queries, value) =>
    db.locked(
      queries
        .selectFrom('build_requests')
        .select(['id', 'project_id', 'build_state', 'fetch'])
        .where('id', '=', value('id')),
      'build_requests',
    ),
  ),
);
const countedOfRequest = prepared<{ request: bigint }, CountedBuild>((db, value) =>
  db
    .selectFrom('builds')
    .select(['suite_id', 'attempt', 'build_state', 'failure_reason'])
    .where('build_request_id', '=', value('request')),
);
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

/** Until the transaction is over nobody else adds builds to the commit, or looks at those that it has to do so. */
export async function holdForBuilds({ db, trx }: WriteContext, requestId: bigint, commitId?: bigint): Promise<void> {
  await Promise.all([
    holdRequest(db)(trx, { id: requestId }),
    commitId === undefined ? undefined : holdCommit(db)(trx, { id: commitId }),
  ]);
}

/** Brings commits and requests into line with their builds. Answers what moved, and which projects that changes. */
export async function rollUpCommits(
  { db, trx }: WriteContext,
  commitIds: bigint[],
  requestIds: bigint[],
): Promise<{ moved: LifecycleEvent[]; changed: bigint[] }> {
  // Asked for all at once and answered in this order: each is looked at when it is held.
  const [requests, commits, ofCommits, ofRequests] = await Promise.all([
    Promise.all(requestIds.map((id) => holdRequest(db)(trx, { id }))),
    Promise.all(commitIds.map((id) => holdCommit(db)(trx, { id }))),
    Promise.all(commitIds.map((commit) => countedOfCommit(trx, { commit }))),
    Promise.all(requestIds.map((request) => countedOfRequest(trx, { request }))),
  ]);
  const moved: LifecycleEvent[] = [];
  const changed: bigint[] = [];
  for (const [at, id] of commitIds.entries()) {
    const [commit] = commits[at] ?? [];
    if (!commit) throw new Error(`commit ${id} is gone`);
    const state = commitState((ofCommits[at] ?? []).map(toFact), 'chosen');
    if (state === commit.build_state) continue;
    await moveCommit(trx, { id, from: commit.build_state, state });
    moved.push({ projectId: commit.project_id, subjectId: id, type: 'commit', state });
    changed.push(commit.project_id);
  }
  for (const [at, id] of requestIds.entries()) {
    const [request] = requests[at] ?? [];
    if (!request) throw new Error(`build request ${id} is gone`);
    const state = buildRequestState(request.fetch as FetchState, (ofRequests[at] ?? []).map(toFact));
    if (state === request.build_state) continue;
    await moveRequest(trx, { id, from: request.build_state, state });
    moved.push({ projectId: request.project_id, subjectId: id, type: 'build_request', state });
  }
  return { moved, changed };
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
const moveProject = preparedChange<{ id: bigint; state: string }>((db, value) =>
  db
    .updateTable('projects')
    .set({ build_state: value('state') })
    .where('id', '=', value('id'))
    .where('build_state', '!=', value('state')),
);

/**
 * A project is in the state of the newest commit of its trunk, or of the newest one where none of that was built. Its row
 * is held already, so nothing newer can be overwritten. Answers the commit that decided.
 */
export async function rollUpProject({ trx }: WriteContext, projectId: bigint): Promise<bigint | undefined> {
  const [deciding] = await findDecidingCommit(trx, { project: projectId });
  const state = projectState((deciding?.build_state as CommitState | undefined) ?? null);
  await moveProject(trx, { id: projectId, state });
  return deciding?.id;
}

function toFact(build: CountedBuild): BuildFact {
  return {
    suiteId: build.suite_id,
    attempt: build.attempt,
    state: build.build_state as BuildState,
    failureReason: build.failure_reason,
  };
}
