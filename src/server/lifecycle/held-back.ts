import { columnsInVariant } from '../../shared/records/variant-settings.ts';
import { sql } from 'kysely';
import type { Queries } from '../db/open.ts';
import type { BuildRow } from '../db/schema.ts';
import { waitsForItsTurn } from '../../shared/domain/runner-slots.ts';
import { enqueue, type NewJob } from '../queue/queue.ts';
import { addLine } from '../streams/logs.ts';
import { writeMove } from './build-moves.ts';
import type { SuiteSettings } from './file-suites.ts';
import { findFilesLocation, type TakingBuild } from './kept-builds.ts';
import { takesFiles } from './lent-files.ts';
import { sortWaiting, notYetPassed, standingsOf, withFirst, type NeedingBuild } from './needs.ts';
import type { BuildState } from './states.ts';
import { subjectTopic, type Group, type LifecycleEvent, type WriteContext } from './write-context.ts';

/*
 * Held builds have no job yet, so claims need not skip them. A build first waits for needed suites and an approval,
 * then for its group. The transaction that ends a build also enqueues or skips the builds that waited for it. Only a
 * transaction that has locked its request, commit and group writes a held build (pending-effects.ts).
 */

/** `needs` includes an approval. */
export type Held = '' | 'needs' | 'group';

const heldColumns = [
  'id',
  'project_id',
  'suite_name',
  'variant',
  'attempt',
  'build_state',
  'allow_failure',
  'needs',
  'approval',
  'approved_by',
  'concurrency_group',
  'held',
  'deploy_id',
] as const satisfies (keyof BuildRow)[];
type HeldBuild = Pick<BuildRow, (typeof heldColumns)[number]>;
type GraphBuild = Pick<HeldBuild, 'suite_name' | 'variant' | 'attempt' | 'build_state' | 'allow_failure' | 'needs'>;

const needFailed = 'The suite did not run: a suite that it needs did not pass. The build request shows which.';

interface Moved {
  hasMoved: boolean;
  events: LifecycleEvent[];
  groups: Group[];
}

export async function moveHeld(
  context: WriteContext,
  builds: readonly HeldBuild[],
  ofFirst: readonly HeldBuild[],
): Promise<Moved> {
  const waiting = builds.filter(isBehind);
  if (waiting.length === 0) return { hasMoved: false, events: [], groups: [] };
  const { ready, vain } = sortWaiting(waiting.map(needing), withFirst(builds, ofFirst).map(needing));
  const events: LifecycleEvent[] = [];
  const move = async (build: { id: bigint }, to: BuildState, failure_reason = ''): Promise<void> => {
    const moved = await writeMove(context, build, to, { failure_reason });
    if (moved) events.push(moved.event);
  };
  for (const build of vain) {
    // A deploy's page shows only the log of its build.
    if (build.deploy_id !== null) await addLine(context.db, context.trx, build.id, needFailed);
    await move(build, 'skipped', 'needed_suite_failed');
  }
  const isUnapproved = ({ approval, approved_by: by }: Omit<HeldBuild, 'needs'>): boolean =>
    approval === 1 && by === '';
  for (const build of ready.filter(isUnapproved)) await move(build, 'waiting_for_approval');
  const free = ready.filter((build) => !isUnapproved(build));
  const inLine = free.filter(({ concurrency_group: group }) => group !== '');
  await enqueueHeld(
    context,
    free.filter(({ concurrency_group: group }) => group === ''),
  );
  for (const { id } of inLine)
    await context.trx.updateTable('builds').set({ held: 'group' }).where('id', '=', id).execute();
  return { hasMoved: ready.length + vain.length > 0, events, groups: inLine.map(groupOf) };
}

export function groupOf({
  project_id: projectId,
  concurrency_group: name,
}: Pick<HeldBuild, 'project_id' | 'concurrency_group'>): Group {
  return { projectId, name };
}

/** Users choose the names of suites' groups, so the service's own groups have another prefix. */
export const suitesGroup = (name: string): string => (name === '' ? '' : `${ofSuites}${name}`);
export const deploysGroup = (strategy: bigint | null): string => `${ofDeploys}${strategy}`;
const [ofSuites, ofDeploys] = ['suites: ', 'deploys: '] as const;

const waitsForGroup = (group: string): string =>
  group.startsWith(ofDeploys)
    ? 'waits for an earlier deploy of its strategy'
    : `waits for the group ${group.slice(ofSuites.length)}`;

export function needing<Build extends GraphBuild>(build: Build): Omit<Build, 'needs'> & NeedingBuild {
  return {
    ...build,
    state: build.build_state as BuildState,
    isAllowedToFail: build.allow_failure === 1,
    needs: JSON.parse(build.needs) as string[],
  };
}

/** A build that may be reused is compared with those that ran before it runs (dispatch/check-inputs.ts). */
export const jobFor = (mayReuse: number): string => (mayReuse === 1 ? 'check_inputs' : 'run_suite');

async function enqueueHeld({ db, trx, ids }: WriteContext, builds: readonly { id: bigint }[]): Promise<void> {
  if (builds.length === 0) return;
  const free = builds.map(({ id }) => id);
  await trx.updateTable('builds').set({ held: '' }).where('id', 'in', free).execute();
  const jobs = await trx
    .selectFrom('builds')
    .innerJoin('projects', 'projects.id', 'builds.project_id')
    .innerJoin('build_requests', 'build_requests.id', 'builds.build_request_id')
    .leftJoin('suites', 'suites.id', 'builds.suite_id')
    .leftJoin('file_suites', (join) =>
      join
        .onRef('file_suites.project_id', '=', 'build_requests.project_id')
        .onRef('file_suites.digest', '=', 'build_requests.config_digest')
        .onRef('file_suites.name', '=', 'builds.suite_name'),
    )
    .select(['builds.id as subjectId', 'projects.owner_id as accountId', 'suites.tags', 'file_suites.settings'])
    .select(['builds.build_request_id', 'builds.files_from', 'builds.lent_from', 'builds.variant', 'builds.priority'])
    .select('builds.may_reuse')
    .where('builds.id', 'in', free)
    .orderBy('builds.id')
    .execute();
  const wanted = jobs.map(async ({ subjectId, accountId, tags, settings, priority, may_reuse, ...build }) => ({
    kind: jobFor(may_reuse),
    subjectId,
    accountId,
    priority,
    tags: columnsInVariant(
      { tags: (settings === null ? tags : (JSON.parse(settings) as SuiteSettings).tags) ?? '' },
      build.variant,
    ).tags,
    ...(may_reuse === 1 ? {} : await preferredFor(trx, build)),
  }));
  await enqueue(db, trx, ids, ...(await Promise.all(wanted)));
  for (const id of free) await db.announce(trx, subjectTopic(id));
}

/**
 * For this time only the runner that has the files is offered the build. Another runner would have to download them.
 */
const preferMs = 3000;

export async function preferredFor(db: Queries, build: TakingBuild): Promise<Pick<NewJob, 'location' | 'runAfter'>> {
  const location = takesFiles(build) ? await findFilesLocation(db, build) : undefined;
  return location === undefined ? {} : { location, runAfter: Date.now() + preferMs };
}

/** Until the transaction ends, no other transaction moves builds of these groups. */
export async function holdGroups({ db, trx }: WriteContext, groups: readonly Group[]): Promise<void> {
  const names = groups.flatMap(({ projectId, name }) => (name === '' ? [] : [`${projectId} ${name}`]));
  for (const name of [...new Set(names)].toSorted()) await db.holdRight(trx, 'group', name);
}

export async function moveGroups(context: WriteContext, groups: readonly Group[]): Promise<void> {
  if (groups.length === 0) return;
  await holdGroups(context, groups);
  for (const { projectId, name } of groups) {
    const open = context.trx
      .selectFrom('builds')
      .select('id')
      .where('project_id', '=', projectId)
      .where('concurrency_group', '=', name)
      // Repeats the index's condition word for word. Otherwise the database would not use the index.
      .where(sql<boolean>`concurrency_group > '' and finished_at is null`)
      .orderBy('id')
      .limit(1);
    if (await open.where('held', '=', '').executeTakeFirst()) continue;
    const next = await open.where('held', '=', 'group').executeTakeFirst();
    if (next) await enqueueHeld(context, [next]);
  }
}

/**
 * For a build outside of the queue's order that is about to begin. False while another build of that group is under way.
 */
export async function joinGroup(
  context: WriteContext,
  { id, project_id: projectId }: Pick<BuildRow, 'id' | 'project_id'>,
  name: string,
): Promise<boolean> {
  if (name === '') return true;
  const { trx } = context;
  await holdGroups(context, [{ projectId, name }]);
  const others = trx.selectFrom('builds').select('id').where('project_id', '=', projectId).where('id', '<>', id);
  const open = others.where('concurrency_group', '=', name).where('held', '=', '');
  // Repeats the index's condition word for word. Otherwise the database would not use the index.
  if (
    await open
      .where(sql<boolean>`concurrency_group > '' and finished_at is null`)
      .limit(1)
      .executeTakeFirst()
  )
    return false;
  await trx.updateTable('builds').set({ concurrency_group: name }).where('id', '=', id).execute();
  return true;
}

export async function heldReasons(db: Queries, builds: readonly BuildRow[]): Promise<ReadonlyMap<bigint, string>> {
  const held = builds.filter((build) => build.held !== '');
  const needy = held.filter(isBehind);
  const requests = [...new Set(needy.map(({ build_request_id: request }) => request))];
  const firsts = await findFirsts(db, requests);
  const columns = [...heldColumns, 'build_request_id'] as const;
  const counted = [...requests, ...firsts.values()];
  const all =
    requests.length === 0
      ? []
      : await db.selectFrom('builds').select(columns).where('build_request_id', 'in', counted).execute();
  const byRequest = Map.groupBy(all, ({ build_request_id: request }) => request);
  const buildsOf = (id: bigint | undefined) => byRequest.get(id ?? 0n) ?? [];
  const standings = new Map(
    requests.map((id) => [id, standingsOf(withFirst(buildsOf(id), buildsOf(firsts.get(id))).map(needing))]),
  );
  const reason = (build: BuildRow): string => {
    if (build.build_state === 'waiting_for_approval') return forApproval;
    if (build.held === 'group') return waitsForGroup(build.concurrency_group);
    const awaited = notYetPassed(needing(build), standings.get(build.build_request_id) ?? new Map()).join(', ');
    return awaited === '' ? waitsForItsTurn : `waits for ${awaited}`; // it was released after it was read
  };
  return new Map(held.map((build) => [build.id, reason(build)]));
}

async function findFirsts(db: Queries, requests: readonly bigint[]): Promise<ReadonlyMap<bigint, bigint>> {
  if (requests.length === 0) return new Map();
  const joined = db.selectFrom('build_requests').select(['id', 'joined_to_id']).where('id', 'in', requests);
  const rows = await joined.where('joined_to_id', 'is not', null).execute();
  return new Map(rows.flatMap(({ id, joined_to_id: first }) => (first === null ? [] : [[id, first]])));
}

export async function heldRequests(
  db: Queries,
  requests: readonly { id: bigint; joined_to_id: bigint | null }[],
): Promise<ReadonlyMap<bigint, string>> {
  if (requests.length === 0) return new Map();
  const ids = requests.flatMap(({ id, joined_to_id: first }) => (first === null ? [id] : [id, first]));
  const open = db
    .selectFrom('builds')
    .selectAll()
    .where('build_request_id', 'in', ids)
    .where('checks_id', 'is', null)
    .where('finished_at', 'is', null);
  const byRequest = Map.groupBy(await open.execute(), ({ build_request_id: request }) => request);
  const awaited = requests.map(({ id, joined_to_id: first }) => {
    const builds = [...(byRequest.get(id) ?? []), ...(byRequest.get(first ?? 0n) ?? [])];
    // A build that waits for other builds of the request does not count. The request waits for what those other builds
    // wait for.
    const leading = builds.find((build) => !isBehind(build));
    return leading && builds.every((build) => build.held !== '') ? [{ id, leading }] : [];
  });
  const reasons = await heldReasons(
    db,
    awaited.flat().map(({ leading }) => leading),
  );
  return new Map(awaited.flat().map(({ id, leading }) => [id, reasons.get(leading.id) ?? '']));
}

const forApproval = 'waits for approval';

const isBehind = ({ held, build_state: state }: HeldBuild): boolean => held === 'needs' && state === 'enqueued';

/** The builds whose files a build has, as columns. */
export type FilesOf = Partial<Pick<BuildRow, 'files_of' | 'lent_by'>>;

/** For a build whose needed files were gone when it was about to start. `gone` are the builds that had produced them. */
export async function holdAgain({ trx }: WriteContext, id: bigint, gone: FilesOf): Promise<void> {
  const held = { held: 'needs', ...gone } as const;
  await trx.updateTable('builds').set(held).where('id', '=', id).where('build_state', '=', 'enqueued').execute();
}

export async function noteFiles({ trx }: WriteContext, id: bigint, by: FilesOf): Promise<void> {
  await trx.updateTable('builds').set(by).where('id', '=', id).execute();
}
