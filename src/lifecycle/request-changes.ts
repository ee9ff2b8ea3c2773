import type { Queries } from '../db/open.ts';
import type { BuildRequestRow, CommitRow, RequestChangesRow } from '../db/schema.ts';
import type { WriteContext } from './write-context.ts';

/**
 * Which files changed, and compared with what. A push is compared with the commit that its branch had before. A pull
 * request and a new branch are compared with the commit where they left another branch. A request by hand is compared
 * with the first parent on the default branch, and elsewhere with the commit where the branch left the default branch.
 * So one commit can have changed different files for different requests.
 *
 * The commit's own list is compared with its first parent: where that is meant, nothing is stored here. `files` is null
 * where no rule asked for them.
 */
export type Changes = Omit<RequestChangesRow, 'build_request_id'>;

/** For a commit that was fetched for another request, if no rule asks for its files. */
export const notCompared: Changes = {
  base: '',
  compared_with: 'nothing: no rule asks which files changed',
  files: null,
};

/** Stands for the commit before, if the push made the branch. */
export const madeByPush = 'none';

export async function storeChanges({ trx }: WriteContext, requestId: bigint, changes: Changes): Promise<void> {
  await trx
    .insertInto('request_changes')
    .values({ build_request_id: requestId, ...changes })
    .onConflict((conflict) => conflict.column('build_request_id').doUpdateSet(changes))
    .execute();
}

/** A commit, with the files that it changed for this request. */
export async function withChanges(db: Queries, requestId: bigint, commit: CommitRow): Promise<CommitRow> {
  const rows = db.selectFrom('request_changes').select('files').where('build_request_id', '=', requestId);
  return { ...commit, files: (await rows.executeTakeFirst())?.files ?? commit.files };
}

/**
 * The changes that the last request for a commit found, if it was compared with the same; undefined inside where that
 * is the first parent. A deploy takes whatever the last request found.
 */
export async function comparedAlike(
  db: Queries,
  commitId: bigint,
  { event, pull_request: pull, before, deploy_id: deploy }: BuildRequestRow,
): Promise<{ changes: Changes | undefined } | undefined> {
  const isPush = event === 'push' || event === 'poll';
  if (pull !== null || (isPush && before === '')) return undefined;
  const row = await db
    .selectFrom('build_requests')
    .leftJoin('request_changes', 'request_changes.build_request_id', 'build_requests.id')
    .select(['base', 'compared_with', 'files'])
    .where('commit_id', '=', commitId)
    .where('fetch', '=', 'done')
    .where('pull_request', 'is', null)
    .$if(deploy === null, (some) =>
      some.where('before', '=', before).where('event', isPush ? 'in' : 'not in', ['push', 'poll']),
    )
    .where((either) => either.or([either('base', 'is', null), either('files', 'is not', null)]))
    .orderBy('build_requests.id', 'desc')
    .limit(1)
    .executeTakeFirst();
  if (!row) return undefined;
  const { base, compared_with, files } = row;
  return { changes: base === null || compared_with === null ? undefined : { base, compared_with, files } };
}
