import type { Queries } from '../db/open.ts';
import type { BuildRequestRow, CommitRow, RequestChangesRow } from '../db/schema.ts';
import type { WriteContext } from './write-context.ts';

/**
 * Which files changed, and compared with what. A push is compared with the commit that its branch had before. A pull
 * request and a new branch are compared with the commit where they left another branch. A request by hand is compared
 * with the first parent on the default branch, and elsewhere with the commit where the branch left the default branch.
 * So one commit can have changed different files for different requests.
 *
 * `files` is null where the commit's own list is meant, which is compared with its first parent. Nothing is stored for
 * a commit that was known before, if no rule asks which files changed.
 */
export type Changes = Omit<RequestChangesRow, 'build_request_id'>;

export function withFirstParent({ parent }: Pick<CommitRow, 'parent'>): Changes {
  return { base: parent, compared_with: 'its first parent', files: null };
}

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
 * What a known commit changed for this request, without another fetch: the first parent's comparison came with the commit,
 * others are taken from the last request that was compared with the same. A deploy takes whatever the last request found.
 */
export async function comparedAlike(
  db: Queries,
  commit: CommitRow,
  { event, pull_request: pull, before, deploy_id: deploy }: BuildRequestRow,
): Promise<Changes | undefined> {
  const isPush = event === 'push' || event === 'poll';
  if (pull !== null || (isPush && before === '')) return undefined;
  if (!isPush && deploy === null && (await isOnDefault(db, commit))) return withFirstParent(commit);
  return db
    .selectFrom('build_requests')
    .innerJoin('request_changes', 'request_changes.build_request_id', 'build_requests.id')
    .select(['base', 'compared_with', 'files'])
    .where('commit_id', '=', commit.id)
    .where('fetch', '=', 'done')
    .where('pull_request', 'is', null)
    .$if(deploy === null, (some) =>
      some.where('before', '=', before).where('event', isPush ? 'in' : 'not in', ['push', 'poll']),
    )
    .orderBy('build_requests.id', 'desc')
    .limit(1)
    .executeTakeFirst();
}

async function isOnDefault(db: Queries, { project_id: project, branches }: CommitRow): Promise<boolean> {
  const projects = db.selectFrom('projects').select('default_branch').where('id', '=', project);
  const { default_branch: name } = await projects.executeTakeFirstOrThrow();
  return (JSON.parse(branches) as string[]).includes(name);
}
