import type { BuildRequestRow, ProjectRow } from '../db/schema.ts';
import { failFetch, moveFetch, startSuites } from '../lifecycle/requests.ts';
import { mostTries } from '../lifecycle/tries.ts';
import { recordCommit, recordMerge } from '../lifecycle/commits.ts';
import { holdToJoin } from '../lifecycle/joined-requests.ts';
import { conflictSentence, isMerged, noteTarget } from '../lifecycle/merges.ts';
import { noteFetchBegins } from '../lifecycle/request-trace.ts';
import { traceFetch } from '../tracing/traces.ts';
import { byProject, storeFileSuites } from '../lifecycle/file-suites.ts';
import { madeByPush, withFirstParent } from '../lifecycle/request-changes.ts';
import { includedProject, includesOf, refOf } from '../lifecycle/includes.ts';
import type { CommitReport, Comparison, IncludeOrder, Outcome } from '../../shared/protocol/index.ts';
import { sourceOf } from './sources.ts';
import type { JobContext, JobHandler } from './job-handler.ts';

export const fetchCommit: JobHandler = {
  keepsLogOpen: true, // a rerun fetches again, and writes to the same log

  async order(context, job) {
    const request = await requestOf(context, job.subject_id);
    if (!request) return undefined;
    await moveFetch(context, request.id, 'running');
    await noteFetchBegins(context, request);
    const project = await projectOf(context, request.project_id);
    const previous = await previousOf(context, request);
    return {
      kind: 'fetch_commit',
      source: await sourceOf(context.trx, context.vault, project),
      commitRef: request.commit_ref,
      ...(request.fetch_ref !== '' && { fetchRef: request.fetch_ref }),
      previous,
      compare: comparisonOf(request, previous[`refs/heads/${request.target_branch}`]),
      defaultHead: await defaultHeadOf(context, project),
      ...(isMerged(project, request) && { merge: { into: request.target_branch, name: String(request.id) } }),
      ...(project.config_file !== '' &&
        request.from_fork === 0 && {
          configFile: project.config_file,
          includes: await includesFor(context, project, request),
        }),
    };
  },

  outcomes: ['fetched', 'unfetchable', 'timed_out', 'killed', 'cancelled'],

  async settle(context, job, outcome, { file, sha }) {
    const request = await requestOf(context, job.subject_id);
    if (!request) return undefined;
    if (outcome.kind === 'cancelled' || job.cancelled) await moveFetch(context, request.id, 'cancelled');
    else if (outcome.kind === 'unfetchable' && outcome.conflict) {
      const { head, base, files } = outcome.conflict;
      const merge = { head_sha: head, merge_base: base };
      const words = conflictSentence(files, request.target_branch);
      await failFetch(context, request.id, { reason: outcome.reason, sha: head, words, merge });
      await noteTarget(context, request.project_id, { ...request, ...merge });
    } else if (outcome.kind !== 'fetched') await failFetch(context, request.id, { reason: reasonOf(outcome), sha });
    else {
      const alike = await holdToJoin(context, request, outcome.commit.sha);
      await context.db.holdRight(context.trx, 'recording', request.project_id); // two requests may have found the same new commit
      const project = await projectOf(context, request.project_id);
      if (!file && isConfigured(project, request, outcome.commit)) return { isStale: true };
      const { merge } = outcome;
      const commit = merge
        ? await recordMerge(context, project.id, outcome.commit, merge)
        : await recordCommit(context, project.id, outcome.commit);
      const merged = merge
        ? { head_sha: outcome.commit.sha, merge_base: merge.base }
        : { head_sha: '', merge_base: '' };
      const { config_digest: digest = '' } = file ?? {};
      if (file && digest !== '') await storeFileSuites(context, { projectId: project.id, digest }, file.suites);
      const { changes } = outcome;
      await startSuites(context, project, { ...request, ...merged }, commit, {
        branch: outcome.commit.branch ?? '',
        ref: merge ? null : outcome.commit.ref,
        alike,
        file: file ?? byProject,
        changes: changes
          ? { base: changes.base ?? '', compared_with: changes.comparedWith, files: JSON.stringify(changes.files) }
          : withFirstParent(commit),
      });
      if (merge) await noteTarget(context, project.id, { ...request, ...merged });
    }
    traceFetch(context, request, job, outcome.kind);
    return undefined;
  },

  async lose(context, job) {
    if (job.cancelled) await moveFetch(context, job.subject_id, 'cancelled');
    else if (job.tries < mostTries) return { retry: true };
    else await failFetch(context, job.subject_id, { reason: 'runner_lost' });
    const request = await requestOf(context, job.subject_id);
    if (request) traceFetch(context, request, job, job.cancelled ? 'cancelled' : 'runner_lost');
    return { retry: false };
  },
};

/** If one is gone, none is fetched, and the file is refused where it is read. */
async function includesFor(
  { trx, vault }: JobContext,
  project: ProjectRow,
  request: BuildRequestRow,
): Promise<IncludeOrder[]> {
  const orders: IncludeOrder[] = [];
  for (const one of includesOf(request)) {
    const other = await includedProject(trx, project, one);
    if (!other) return [];
    orders.push({ source: await sourceOf(trx, vault, other), ref: refOf(one), path: one.path });
  }
  return orders;
}

function reasonOf(outcome: Outcome): string {
  return 'reason' in outcome ? outcome.reason : outcome.kind;
}

async function requestOf({ trx }: JobContext, id: bigint): Promise<BuildRequestRow | undefined> {
  return trx.selectFrom('build_requests').selectAll().where('id', '=', id).executeTakeFirst();
}

async function projectOf({ trx }: JobContext, id: bigint): Promise<ProjectRow> {
  return trx.selectFrom('projects').selectAll().where('id', '=', id).executeTakeFirstOrThrow();
}

/** Whether the commit is built by its own file. Never for a commit from a fork. */
export function isConfigured(project: ProjectRow, request: BuildRequestRow, { branches, tags }: CommitReport): boolean {
  return project.config_file !== '' && request.from_fork === 0 && branches.length + tags.length > 0;
}

function comparisonOf(request: BuildRequestRow, lastBuilt: string | undefined): Comparison {
  if (request.pull_request !== null) return { leaving: request.target_branch || null };
  const isPushed = request.event === 'push' || request.event === 'poll';
  if (!isPushed || request.target_branch === '') return { asked: true };
  const before = request.before === '' ? lastBuilt : request.before;
  return before === undefined || before === madeByPush ? { leaving: null } : { before };
}

export async function defaultHeadOf(
  { trx }: Pick<JobContext, 'trx'>,
  { default_head_id: id }: ProjectRow,
): Promise<string | null> {
  if (id === null) return null;
  return (await trx.selectFrom('commits').select('ref').where('id', '=', id).executeTakeFirst())?.ref ?? null;
}

async function previousOf({ trx }: JobContext, request: BuildRequestRow): Promise<Record<string, string>> {
  const { commit_ref: ref, fetch_ref: by } = request;
  const rows = await trx
    .selectFrom('built_refs')
    .innerJoin('commits', 'commits.id', 'built_refs.commit_id')
    .select(['built_refs.name', 'commits.ref'])
    .where('built_refs.project_id', '=', request.project_id)
    .$if(ref !== 'HEAD', (query) =>
      query.where('built_refs.name', 'in', [ref, `refs/heads/${ref}`, `refs/tags/${ref}`, by]),
    )
    .orderBy('built_refs.id', 'desc')
    .limit(100)
    .execute();
  return Object.fromEntries(rows.map((row) => [row.name, row.ref]));
}
