import type { Queries, Transaction } from '../db/open.ts';
import type { BuildRequestRow, BuildRow } from '../db/schema.ts';
import type { LifecycleEvent } from './write-context.ts';
import { notesDeed, type ToldDeed } from './forge-deeds.ts';
import { newestAttempts } from './rollup.ts';
import { buildMachine, buildRequestMachine, isFinal, type BuildRequestState, type BuildState } from './states.ts';

/** The pull requests whose notes may have changed by these events. A request counts the suites of the one it joined. */
export async function notesAfter(
  trx: Transaction,
  projectId: bigint,
  events: readonly LifecycleEvent[],
): Promise<ToldDeed[]> {
  const idsOf = (type: string, isOver: (state: string) => boolean): bigint[] =>
    events.flatMap((one) => (one.type === type && isOver(one.state) ? [one.subjectId] : []));
  const builds = idsOf('build', (state) => isFinal(buildMachine, state as BuildState));
  const requests = idsOf('build_request', (state) => isFinal(buildRequestMachine, state as BuildRequestState));
  if (builds.length + requests.length === 0) return [];
  const projects = trx.selectFrom('projects').select('id').where('id', '=', projectId);
  if (!(await projects.where('pull_request_notes', '=', 'on').where('forge_id', 'is not', null).executeTakeFirst()))
    return [];
  const ofBuilds =
    builds.length === 0
      ? []
      : await trx.selectFrom('builds').select('build_request_id as id').distinct().where('id', 'in', builds).execute();
  const ids = [...requests, ...ofBuilds.map(({ id }) => id)];
  const pulls = await trx
    .selectFrom('build_requests')
    .select('pull_request')
    .distinct()
    .where((where) => where.or([where('id', 'in', ids), where('joined_to_id', 'in', ids)]))
    .where('pull_request', 'is not', null)
    .orderBy('pull_request')
    .execute();
  return pulls.flatMap(({ pull_request: pull }) => (pull === null ? [] : [notesDeed(pull)]));
}

export type NotedBuild = Pick<
  BuildRow,
  | 'id'
  | 'project_id'
  | 'build_request_id'
  | 'suite_id'
  | 'suite_name'
  | 'variant'
  | 'tests_failed'
  | 'finished_at'
  | 'attempt'
  | 'approved_by'
>;

export interface Noted {
  request: Pick<BuildRequestRow, 'id'> & { isOver: boolean };
  sha: string;
  /** Ended builds that may write notes, in the order of their suites. */
  builds: NotedBuild[];
}

/** Of the newest request of a pull request. Undefined if its commit was not fetched. */
export async function findNoted(db: Queries, projectId: bigint, pull: bigint): Promise<Noted | undefined> {
  const request = await db
    .selectFrom('build_requests')
    .innerJoin('commits', 'commits.id', 'build_requests.commit_id')
    .select(['build_requests.id', 'joined_to_id', 'from_fork', 'approved', 'build_requests.build_state', 'commits.ref'])
    .select('head_sha')
    .where('build_requests.project_id', '=', projectId)
    .where('pull_request', '=', pull)
    .orderBy('build_requests.id', 'desc')
    .limit(1)
    .executeTakeFirst();
  if (!request) return undefined;
  const { id, joined_to_id: first, from_fork: isFork, approved, build_state: state } = request;
  const sha = request.head_sha || request.ref;
  const all = await db
    .selectFrom('builds')
    .select(['id', 'project_id', 'build_request_id', 'suite_id', 'suite_name', 'variant', 'tests_failed'])
    .select(['finished_at', 'attempt', 'approved_by'])
    .where('build_request_id', 'in', first === null ? [id] : [id, first])
    .where('counts', '=', 1)
    .execute();
  const isAllowed = ({ approved_by: by }: NotedBuild): boolean => isFork === 0 || approved === 1 || by !== '';
  const byRequest = Map.groupBy(all, ({ build_request_id: of }) => of);
  const builds = Array.from(byRequest.values())
    .flatMap((some) => newestAttempts(some))
    .filter((build) => build.finished_at !== null && isAllowed(build))
    .toSorted((a, b) => a.suite_name.localeCompare(b.suite_name, 'en') || (a.id < b.id ? -1 : 1));
  return { request: { id, isOver: isFinal(buildRequestMachine, state as BuildRequestState) }, sha, builds };
}

/** A later delivery tells the same, and more. */
export async function isSuperseded(
  db: Queries,
  { notification_id: target, position }: { notification_id: bigint; position: bigint },
  pull: bigint,
): Promise<boolean> {
  const later = db.selectFrom('webhook_deliveries').select('id').where('notification_id', '=', target);
  const waiting = later.where('state', '=', 'pending').where('position', '>', position);
  const same = waiting.where('event_type', '=', notesDeed(pull).type).where('subject_id', '=', pull);
  return (await same.limit(1).executeTakeFirst()) !== undefined;
}

/** What the forge has: a comment, or a check run at a commit. */
export interface ToldNotes {
  remote_id: string;
  sha: string;
  /** Of all that it says. */
  text_hash: string;
}

export async function toldNotes(db: Queries, target: bigint, pull: bigint): Promise<ToldNotes | undefined> {
  const notes = db.selectFrom('pull_request_notes').select(['remote_id', 'sha', 'text_hash']);
  return notes.where('notification_id', '=', target).where('pull_request', '=', pull).executeTakeFirst();
}

export async function keepTold(trx: Transaction, target: bigint, pull: bigint, told: ToldNotes): Promise<void> {
  await trx
    .insertInto('pull_request_notes')
    .values({ notification_id: target, pull_request: pull, ...told })
    .onConflict((known) => known.columns(['notification_id', 'pull_request']).doUpdateSet(told))
    .execute();
}
