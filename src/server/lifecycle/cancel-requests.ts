import { runAgain } from '../db/open.ts';
import type { BuildRequestRow, BuildRow } from '../db/schema.ts';
import { cancel, holdJobsOf } from '../queue/queue.ts';
import { holdRequests } from './apply-rollup.ts';
import { cancelHeld, cancelQueued } from './builds.ts';
import { applyEffects, rollUp } from './pending-effects.ts';
import { buildsOf, moveFetch } from './requests.ts';
import {
  buildRequestMachine,
  fetchMachine,
  isFinal,
  statesBeforeAgain,
  type BuildRequestState,
  type FetchState,
} from './states.ts';
import type { WriteContext } from './write-context.ts';

/** Also cancels the requests that joined it. */
export async function cancelRequest(context: WriteContext, request: BuildRequestRow): Promise<void> {
  await cancelRequests(context, [request]);
  await applyEffects(context);
}

/** Follows the lock order: all jobs first. Also locks the requests `alongside`. The caller applies the effects. */
export async function cancelRequests(
  context: WriteContext,
  asked: readonly BuildRequestRow[],
  alongside: readonly bigint[] = [],
): Promise<void> {
  const requests = [...asked, ...(await joinedTo(context, asked))];
  const open = requests.filter(({ fetch }) => !isFinal(fetchMachine, fetch as FetchState)).map(({ id }) => id);
  const builds = requests.length === 0 ? [] : await idsOfBuilds(context, requests);
  await holdJobsOf(context.db, context.trx, [...open, ...builds]);
  const fetches = await cancel(context.db, context.trx, open);
  // Builds exist only after the fetch, which may have ended since the request was read.
  const fetched = requests.filter(({ id }) => (fetches.get(id) ?? 'none') === 'none');
  const read = async (): Promise<BuildRow[]> => {
    const found: BuildRow[] = [];
    for (const request of fetched) found.push(...(await buildsOf(context, request)));
    return found;
  };
  const held = await cancelQueued(context, await read(), read);
  const locked = await holdRequests(context, [...requests.map(({ id }) => id), ...alongside]);
  const known = new Set(requests.map(({ id }) => id));
  const own = new Set(asked.map(({ id }) => id));
  for (const request of locked.filter(isUnderWay)) {
    const { id, joined_to_id: first, fetch } = request;
    // The request joined since it was read. Its jobs must be locked first.
    if (!known.has(id) && first !== null && own.has(first)) runAgain();
    if (own.has(id) && first !== null && fetch === 'done') await leaveFirst(context, id);
  }
  for (const id of open) if (fetches.get(id) !== 'signalled') await moveFetch(context, id, 'cancelled');
  await cancelHeld(context, held);
}

const isUnderWay = ({ build_state: state }: Pick<BuildRequestRow, 'build_state'>): boolean =>
  !isFinal(buildRequestMachine, state as BuildRequestState);

async function joinedTo({ trx }: WriteContext, requests: readonly BuildRequestRow[]): Promise<BuildRequestRow[]> {
  const ids = requests.map(({ id }) => id);
  if (ids.length === 0) return [];
  const joined = trx.selectFrom('build_requests').selectAll().where('joined_to_id', 'in', ids).orderBy('id');
  return (await joined.execute()).filter((one) => isUnderWay(one) && !ids.includes(one.id));
}

async function leaveFirst(context: WriteContext, id: bigint): Promise<void> {
  const fetch: FetchState = 'cancelled';
  const requests = context.trx.updateTable('build_requests').set({ fetch }).where('id', '=', id);
  await requests.where('fetch', 'in', statesBeforeAgain(fetchMachine, fetch)).execute();
  rollUp(context, { request: id });
}

async function idsOfBuilds({ trx }: WriteContext, requests: readonly BuildRequestRow[]): Promise<bigint[]> {
  const ids = requests.map(({ id }) => id);
  const builds = trx.selectFrom('builds').select('id').where('build_request_id', 'in', ids);
  return (await builds.where('finished_at', 'is', null).execute()).map(({ id }) => id);
}
