import type { Queries } from '../db/open.ts';
import type { BuildRequestRow, CommitRow, RequestChangesRow } from '../db/schema.ts';
import type { WriteContext } from './write-context.ts';

/**
 * The base to compare with, for the changed files. A push uses its branch's previous commit. Pull requests and new
 * branches use the commit where they left another branch. A manual request uses the first parent on the default branch.
 * On any other branch it uses the commit where that branch left the default branch. `files` null means the commit's own
 * list, against its first parent.
 */
export type Changes = Omit<RequestChangesRow, 'build_request_id'>;

export function withFirstParent({ parent }: Pick<CommitRow, 'parent'>): Changes {
  return { base: parent, compared_with: 'its first parent', files: null };
}

/** The base of a branch that the push made. */
export const madeByPush = 'none';

export async function storeChanges({ trx }: WriteContext, requestId: bigint, changes: Changes): Promise<void> {
  await trx
    .insertInto('request_changes')
    .values({ build_request_id: requestId, ...changes })
    .onConflict((conflict) => conflict.column('build_request_id').doUpdateSet(changes))
    .execute();
}

export async function withChanges(db: Queries, requestId: bigint, commit: CommitRow): Promise<CommitRow> {
  const rows = db.selectFrom('request_changes').select('files').where('build_request_id', '=', requestId);
  return { ...commit, files: (await rows.executeTakeFirst())?.files ?? commit.files };
}

/** For a known commit, without another fetch. A deploy uses the comparison of the last request. */
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
