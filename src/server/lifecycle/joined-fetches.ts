import type { BuildRequestRow } from '../db/schema.ts';
import { enqueue } from '../queue/queue.ts';
import type { WriteContext } from './write-context.ts';

type First = Pick<BuildRequestRow, 'id' | 'fetch'>;

/**
 * Call after the first request's fetch. The requests that joined it waited, so the older request is the first, however
 * fast each runner is. If its fetch failed, they have joined nothing.
 */
export async function beginJoinedFetches({ db, trx, ids }: WriteContext, { id, fetch }: First): Promise<void> {
  const waiting = await trx
    .selectFrom('build_requests')
    .innerJoin('projects', 'projects.id', 'build_requests.project_id')
    .select(['build_requests.id', 'build_requests.priority', 'projects.owner_id'])
    .where('joined_to_id', '=', id)
    .where('fetch', '=', 'waiting')
    .orderBy('build_requests.id')
    .execute();
  if (waiting.length === 0) return;
  const joined = waiting.map((request) => request.id);
  if (fetch !== 'done')
    await trx.updateTable('build_requests').set({ joined_to_id: null }).where('id', 'in', joined).execute();
  const jobs = waiting.map((one) => ({
    kind: 'fetch_commit',
    subjectId: one.id,
    accountId: one.owner_id,
    priority: one.priority,
  }));
  await enqueue(db, trx, ids, ...jobs);
}
