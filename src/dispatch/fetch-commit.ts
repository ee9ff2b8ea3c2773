import type { BuildRequestRow, CommitRow, ProjectRow } from '../db/schema.ts';
import { failFetch, moveFetch, startSuites } from '../lifecycle/requests.ts';
import { mostTries } from '../lifecycle/builds.ts';
import { happened, moveTrunk, rollUp } from '../lifecycle/ledger.ts';
import { holdForBuilds } from '../lifecycle/settle.ts';
import type { CommitReport, Outcome } from '../protocol.ts';
import { sourceOf } from './sources.ts';
import type { Bench, Kind } from './kind.ts';

/** A request's commit is looked for in the repository; when it is there, its suites start. */
export const fetchCommit: Kind = {
  keepsLogOpen: true, // a request that is run again fetches again, and tells on in the same log

  async order(bench, job) {
    const request = await requestOf(bench, job.subject_id);
    if (!request) return undefined;
    await moveFetch(bench, request.id, 'running');
    const project = await projectOf(bench, request.project_id);
    return {
      kind: 'fetch_commit',
      source: sourceOf(bench, project),
      commitRef: request.commit_ref,
      previous: await previousOf(bench, request),
      trunk: await trunkOf(bench, project),
    };
  },

  outcomes: ['fetched', 'unfetchable', 'timed_out', 'killed', 'cancelled'],

  async settle(bench, job, outcome) {
    const request = await requestOf(bench, job.subject_id);
    if (!request) return;
    if (outcome.kind === 'cancelled' || job.cancelled) await moveFetch(bench, request.id, 'cancelled');
    else if (outcome.kind !== 'fetched') await failFetch(bench, request.id, reasonOf(outcome));
    else {
      await holdForBuilds(bench, request.id);
      await bench.db.holdNumber(bench.trx, request.project_id); // two requests may have found the same new commit
      const project = await projectOf(bench, request.project_id);
      const commit = await recordCommit(bench, request.project_id, outcome.commit);
      await startSuites(bench, project, request, commit, outcome.commit.branch ?? '');
    }
  },

  async lose(bench, job) {
    if (job.cancelled) await moveFetch(bench, job.subject_id, 'cancelled');
    else if (job.tries < mostTries) return { retry: true };
    else await failFetch(bench, job.subject_id, 'runner_lost');
    return { retry: false };
  },
};

/** In the words that builds have for it. */
function reasonOf(outcome: Outcome): string {
  return 'reason' in outcome ? outcome.reason : outcome.kind;
}

async function requestOf({ trx }: Bench, id: bigint): Promise<BuildRequestRow | undefined> {
  return trx.selectFrom('build_requests').selectAll().where('id', '=', id).executeTakeFirst();
}

async function projectOf({ trx }: Bench, id: bigint): Promise<ProjectRow> {
  return trx.selectFrom('projects').selectAll().where('id', '=', id).executeTakeFirstOrThrow();
}

async function trunkOf({ trx }: Bench, { trunk_commit_id: id }: ProjectRow): Promise<string | null> {
  if (id === null) return null;
  return (await trx.selectFrom('commits').select('ref').where('id', '=', id).executeTakeFirst())?.ref ?? null;
}

/** What the refs that the request may mean pointed to when they were last built. */
async function previousOf({ trx }: Bench, request: BuildRequestRow): Promise<Record<string, string>> {
  const { commit_ref: ref } = request;
  const rows = await trx
    .selectFrom('built_refs')
    .innerJoin('commits', 'commits.id', 'built_refs.commit_id')
    .select(['built_refs.name', 'commits.ref'])
    .where('built_refs.project_id', '=', request.project_id)
    .$if(ref !== 'HEAD', (query) =>
      query.where('built_refs.name', 'in', [ref, `refs/heads/${ref}`, `refs/tags/${ref}`]),
    )
    .orderBy('built_refs.id', 'desc')
    .limit(100)
    .execute();
  return Object.fromEntries(rows.map((row) => [row.name, row.ref]));
}

/** The record of a commit: made the first time it is seen; what may change around it is brought up to date. */
async function recordCommit(bench: Bench, projectId: bigint, report: CommitReport): Promise<CommitRow> {
  const { trx, ids } = bench;
  const surroundings = {
    branches: JSON.stringify(report.branches),
    tags: JSON.stringify(report.tags),
    files: JSON.stringify(report.files),
    branch: report.branch ?? '',
  };
  const known = await trx
    .selectFrom('commits')
    .selectAll()
    .where('project_id', '=', projectId)
    .where('ref', '=', report.sha)
    .executeTakeFirst();
  const commit: CommitRow = known
    ? { ...known, ...surroundings }
    : {
        id: ids.next(),
        project_id: projectId,
        ref: report.sha,
        version: await versionOf(bench, projectId, report),
        build_state: 'waiting_for_builds',
        message: report.message,
        scm_author_name: report.authorName,
        scm_author_email: report.authorEmail,
        scm_authored_date: report.authoredDate,
        scm_committer_name: report.committerName,
        scm_committer_email: report.committerEmail,
        scm_committed_date: report.committedDate,
        ...surroundings,
      };
  if (report.trunk !== 'kept') moveTrunk(bench, projectId, report.trunk === 'this' ? commit.id : null);
  if (known) await trx.updateTable('commits').set(surroundings).where('id', '=', commit.id).execute();
  else await addCommit(bench, commit);
  if (report.ref !== null) await rememberRef(bench, projectId, report.ref, commit.id);
  return commit;
}

async function addCommit(bench: Bench, commit: CommitRow): Promise<void> {
  const { id, project_id: projectId, build_state: state } = commit;
  await bench.trx.insertInto('commits').values(commit).execute();
  rollUp(bench, { project: projectId });
  happened(bench, { projectId, subjectId: id, type: 'commit', state });
}

/** One more than that of the commit whose place it took by force. */
async function versionOf({ trx }: Bench, projectId: bigint, report: CommitReport): Promise<number> {
  if (!report.overwritten || report.ref === null) return 1;
  const overwritten = await trx
    .selectFrom('built_refs')
    .innerJoin('commits', 'commits.id', 'built_refs.commit_id')
    .select('commits.version')
    .where('built_refs.project_id', '=', projectId)
    .where('built_refs.name', '=', report.ref)
    .executeTakeFirst();
  return (overwritten?.version ?? 0) + 1;
}

async function rememberRef({ trx, ids }: Bench, projectId: bigint, name: string, commitId: bigint): Promise<void> {
  await trx
    .insertInto('built_refs')
    .values({ id: ids.next(), project_id: projectId, name, commit_id: commitId })
    .onConflict((conflict) => conflict.columns(['project_id', 'name']).doUpdateSet({ commit_id: commitId }))
    .execute();
}
