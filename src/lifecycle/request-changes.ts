import type { Queries } from '../db/open.ts';
import type { BuildRequestRow, CommitRow, RequestChangesRow } from '../db/schema.ts';
import type { WriteContext } from './write-context.ts';

/**
 * Which files changed, and against what: a push is compared with what its branch had, a pull request and a new branch with
 * where they left another branch, and what somebody asks for by hand with the first parent on the default branch, and
 * elsewhere with where it left that. So one commit can have changed different files for different requests. The first
 * parent is what the commit's own list is compared with: then nothing is stored here.
 */
export type Changes = Omit<RequestChangesRow, 'build_request_id'>;

/** The branch was made by the push. */
export const madeByPush = 'none';

export async function storeChanges({ trx }: WriteContext, requestId: bigint, changes: Changes): Promise<void> {
  await trx
    .insertInto('request_changes')
    .values({ build_request_id: requestId, ...changes })
    .onConflict((conflict) => conflict.column('build_request_id').doUpdateSet(changes))
    .execute();
}

export async function findChanges(db: Queries, requestId: bigint): Promise<Changes | undefined> {
  const rows = db.selectFrom('request_changes').select(['base', 'compared_with', 'files']);
  return rows.where('build_request_id', '=', requestId).executeTakeFirst();
}

/** A commit, with the files that it changed for this request. */
export async function withChanges(db: Queries, requestId: bigint, commit: CommitRow): Promise<CommitRow> {
  const { files = commit.files } = (await findChanges(db, requestId)) ?? {};
  return { ...commit, files };
}

/** The last request for a commit that was compared with the same. A deploy takes what was built before as it was. */
export async function comparedAlike(
  db: Queries,
  commitId: bigint,
  { event, pull_request: pull, before, deploy_id: deploy }: BuildRequestRow,
): Promise<Pick<BuildRequestRow, 'id' | 'config_file' | 'config_digest'> | undefined> {
  const isPush = event === 'push' || event === 'poll';
  if (pull !== null || (isPush && before === '')) return undefined;
  const requests = db
    .selectFrom('build_requests')
    .select(['id', 'config_file', 'config_digest'])
    .where('commit_id', '=', commitId)
    .where('fetch', '=', 'done')
    .where('pull_request', 'is', null)
    .$if(deploy === null, (some) =>
      some.where('before', '=', before).where('event', isPush ? 'in' : 'not in', ['push', 'poll']),
    );
  return requests.orderBy('id', 'desc').limit(1).executeTakeFirst();
}
