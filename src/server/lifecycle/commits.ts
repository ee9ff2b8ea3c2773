import type { CommitRow } from '../db/schema.ts';
import { isForeign } from './forks.ts';
import { moveDefaultHead, recordEvent, rollUp, type DefaultHead } from './pending-effects.ts';
import { commitMachine } from './states.ts';
import type { WriteContext } from './write-context.ts';

export interface FetchedCommit {
  sha: string;
  parent?: string;
  tree?: string;
  message: string;
  authorName: string;
  authorEmail: string;
  authoredDate: string;
  committerName: string;
  committerEmail: string;
  committedDate: string;
  branches: string[];
  tags: string[];
  files: string[];
  branch: string | null;
  ref: string | null;
  /** The ref was built before, at a commit that is not an ancestor of this one. */
  overwritten: boolean;
  /** The default branch's newest built commit: this commit, the same commit as before, or none. */
  defaultHead: 'this' | 'kept' | 'none';
  /** Set if the commit is on the default branch. */
  defaultBranch?: string | null;
}

/** The merge of a head has the head's message, author, branches and files. It is never the commit of a ref. */
export function recordMerge(
  context: WriteContext,
  projectId: bigint,
  head: FetchedCommit,
  { sha, tree }: { sha: string; tree: string },
): Promise<CommitRow> {
  const merge = { ...head, sha, tree, branch: null, ref: null, overwritten: false, defaultHead: 'kept' } as const;
  return recordCommit(context, projectId, merge, head.sha);
}

/** Later fetches of a commit update its branches, tags and version. */
export async function recordCommit(
  context: WriteContext,
  projectId: bigint,
  report: FetchedCommit,
  mergeOf = '',
): Promise<CommitRow> {
  const { trx, ids } = context;
  const metadata = {
    message: report.message,
    scm_author_name: report.authorName,
    scm_author_email: report.authorEmail,
    scm_authored_date: report.authoredDate,
    scm_committer_name: report.committerName,
    scm_committer_email: report.committerEmail,
    scm_committed_date: report.committedDate,
    parent: report.parent ?? '',
  };
  const surroundings = {
    branches: JSON.stringify(report.branches),
    tags: JSON.stringify(report.tags),
    files: JSON.stringify(report.files),
    branch: report.branch ?? '',
    ...(report.tree !== undefined && { tree: report.tree }),
  };
  const known = await trx
    .selectFrom('commits')
    .selectAll()
    .where('project_id', '=', projectId)
    .where('ref', '=', report.sha)
    .executeTakeFirst();
  // Anyone who has a merge may propose it as a commit of theirs. Its record stays until the repository has it.
  const isProposed = known !== undefined && known.merge_of !== '' && mergeOf === '' && isForeign(surroundings);
  const isOther = known !== undefined && known.merge_of !== mergeOf && !isProposed;
  const news = { ...surroundings, ...(isOther && { ...metadata, merge_of: mergeOf }) };
  const commit: CommitRow = known
    ? { ...known, ...news }
    : {
        id: ids.next(),
        project_id: projectId,
        ref: report.sha,
        version: await versionOf(context, projectId, report),
        build_state: commitMachine.initial,
        tree: '',
        ...metadata,
        ...surroundings,
        merge_of: mergeOf,
      };
  if (report.defaultHead !== 'kept') moveDefaultHead(context, projectId, defaultHeadOf(report, commit));
  if (known && !isProposed) await trx.updateTable('commits').set(news).where('id', '=', commit.id).execute();
  else if (!known) await addCommit(context, commit);
  if (report.ref !== null) await rememberRef(context, projectId, report.ref, commit.id);
  return commit;
}

function defaultHeadOf({ defaultHead, defaultBranch }: FetchedCommit, { id }: CommitRow): DefaultHead {
  return defaultHead === 'this' ? { commit: id, branch: defaultBranch || null } : { commit: null, branch: null };
}

async function addCommit(context: WriteContext, commit: CommitRow): Promise<void> {
  const { id, project_id: projectId, build_state: state } = commit;
  await context.trx.insertInto('commits').values(commit).execute();
  rollUp(context, { project: projectId });
  recordEvent(context, { projectId, subjectId: id, type: 'commit', state });
}

/** One more than the version of the commit that a forced push replaced. */
async function versionOf({ trx }: WriteContext, projectId: bigint, report: FetchedCommit): Promise<number> {
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

async function rememberRef(
  { trx, ids }: WriteContext,
  projectId: bigint,
  name: string,
  commitId: bigint,
): Promise<void> {
  await trx
    .insertInto('built_refs')
    .values({ id: ids.next(), project_id: projectId, name, commit_id: commitId })
    .onConflict((conflict) => conflict.columns(['project_id', 'name']).doUpdateSet({ commit_id: commitId }))
    .execute();
}
