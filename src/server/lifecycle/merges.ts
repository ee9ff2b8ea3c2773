import type { Queries, Transaction } from '../db/open.ts';
import type { BuildRequestRow, ProjectRow } from '../db/schema.ts';
import type { WriteContext } from './write-context.ts';

/*
 * A runner may build the merge of a pull request's head into its target branch instead of the head
 * (runner/git/merge.ts). The merge has a commit record of its own. Rules, statuses and origin are the head's.
 */

export function isMerged(
  { pull_request_builds: which }: Pick<ProjectRow, 'pull_request_builds'>,
  { pull_request: pull, target_branch: target }: Pick<BuildRequestRow, 'pull_request' | 'target_branch'>,
): boolean {
  return which === 'merge' && pull !== null && target !== '';
}

const longestShown = 60;
const mostShown = 3;

/** Users see it at the forge. */
export function conflictSentence(files: readonly string[], target: string): string {
  const into = `It cannot be merged into ${inShort(target)}`;
  if (files.length === 0) return `${into}: the two histories have nothing in common.`;
  const more = files.length > mostShown ? ` and ${files.length - mostShown} more` : '';
  return `${into}. Conflicts: ${files.slice(0, mostShown).map(inShort).join(', ')}${more}.`;
}

function inShort(name: string): string {
  const line = name.replaceAll(/[\s\p{Cc}\p{Cf}]+/gu, ' ').trim();
  return line.length <= longestShown ? line : `${line.slice(0, longestShown - 1).toWellFormed()}…`;
}

/** A fetch merged into the branch, at this commit. */
export async function noteTarget(
  { trx, ids }: Pick<WriteContext, 'trx' | 'ids'>,
  projectId: bigint,
  { target_branch: branch, merge_base: sha }: Pick<BuildRequestRow, 'target_branch' | 'merge_base'>,
): Promise<void> {
  await trx
    .insertInto('target_heads')
    .values({ id: ids.next(), project_id: projectId, branch, sha })
    .onConflict((conflict) => conflict.columns(['project_id', 'branch']).doUpdateSet({ sha }))
    .execute();
}

/** A hook or a poll reports where branches are. Only those that something was merged into are stored. */
export async function noteMoves(
  trx: Transaction,
  projectId: bigint,
  moves: readonly { branch: string; sha: string }[],
): Promise<void> {
  const last = new Map(moves.map(({ branch, sha }) => [branch, sha]));
  for (const branch of [...last.keys()].toSorted()) {
    const heads = trx.updateTable('target_heads').set({ sha: last.get(branch) ?? '' });
    await heads.where('project_id', '=', projectId).where('branch', '=', branch).execute();
  }
}

/** Whether the target has moved on since the merge. Some forges report only the beginning of a SHA. */
export async function isBehind(
  db: Queries,
  { project_id: project, target_branch: branch, merge_base: base }: BuildRequestRow,
): Promise<boolean> {
  if (base === '') return false;
  const heads = db.selectFrom('target_heads').select('sha').where('project_id', '=', project);
  const head = await heads.where('branch', '=', branch).executeTakeFirst();
  return head !== undefined && !base.startsWith(head.sha);
}
