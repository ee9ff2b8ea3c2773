import { sql } from 'kysely';
import { prepared, preparedWrite } from '../db/prepared.ts';
import type { BuildRequestRow, BuildRow, CommitRow } from '../db/schema.ts';
import { happened, type Life } from './life.ts';
import { buildRequestState, commitState, projectState, type BuildFact, type FetchProgress } from './rollup.ts';
import type { BuildState, CommitState } from './states.ts';

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

const findCommit = prepared<{ id: bigint }, Pick<CommitRow, 'project_id' | 'build_state'>>((db, value) =>
  db.selectFrom('commits').select(['project_id', 'build_state']).where('id', '=', value('id')),
);
const moveCommit = preparedWrite<{ id: bigint; state: string }>((db, value) =>
  db
    .updateTable('commits')
    .set({ build_state: value('state') })
    .where('id', '=', value('id')),
);

/** Brings a commit, the requests concerned and the project into line with their builds. */
export async function rollUp(life: Life, commitId: bigint, requestIds: bigint[]): Promise<void> {
  const { trx } = life;
  const [commit] = await findCommit(trx, { id: commitId });
  if (!commit) throw new Error(`commit ${commitId} is gone`);
  const state = commitState((await countedOfCommit(trx, { commit: commitId })).map(toFact), 'chosen');
  if (state !== commit.build_state) {
    await moveCommit(trx, { id: commitId, state });
    await rollUpProject(life, commit.project_id); // first, because the event tells of the project too
    await happened(life, { projectId: commit.project_id, subjectId: commitId, type: 'commit', state });
  }
  for (const id of requestIds) await rollUpRequest(life, id);
}

const findRequest = prepared<{ id: bigint }, Pick<BuildRequestRow, 'project_id' | 'build_state' | 'fetch'>>(
  (db, value) =>
    db.selectFrom('build_requests').select(['project_id', 'build_state', 'fetch']).where('id', '=', value('id')),
);
const countedOfRequest = prepared<{ request: bigint }, CountedBuild>((db, value) =>
  db
    .selectFrom('builds')
    .select(['suite_id', 'attempt', 'build_state', 'failure_reason'])
    .where('build_request_id', '=', value('request')),
);
const moveRequest = preparedWrite<{ id: bigint; state: string }>((db, value) =>
  db
    .updateTable('build_requests')
    .set({ build_state: value('state') })
    .where('id', '=', value('id')),
);

export async function rollUpRequest(life: Life, id: bigint): Promise<void> {
  const { trx } = life;
  const [request] = await findRequest(trx, { id });
  if (!request) throw new Error(`build request ${id} is gone`);
  const builds = await countedOfRequest(trx, { request: id });
  const state = buildRequestState(request.fetch as FetchProgress, builds.map(toFact));
  if (state === request.build_state) return;
  await moveRequest(trx, { id, state });
  await happened(life, { projectId: request.project_id, subjectId: id, type: 'build_request', state });
}

const findDecidingCommit = prepared<{ project: bigint }, Pick<CommitRow, 'build_state'>>((db, value) =>
  db
    .selectFrom('commits')
    .select('build_state')
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
const moveProject = preparedWrite<{ id: bigint; state: string }>((db, value) =>
  db
    .updateTable('projects')
    .set({ build_state: value('state') })
    .where('id', '=', value('id'))
    .where('build_state', '!=', value('state')),
);

/** A project is in the state of the newest commit of its trunk, or of the newest one where none of that was built. */
export async function rollUpProject({ trx }: Life, projectId: bigint): Promise<void> {
  const [deciding] = await findDecidingCommit(trx, { project: projectId });
  const state = projectState((deciding?.build_state as CommitState | undefined) ?? null);
  await moveProject(trx, { id: projectId, state });
}

function toFact(build: CountedBuild): BuildFact {
  return {
    suiteId: build.suite_id,
    attempt: build.attempt,
    state: build.build_state as BuildState,
    failureReason: build.failure_reason,
  };
}
