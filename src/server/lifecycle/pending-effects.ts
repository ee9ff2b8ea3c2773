import type { StatusReport } from './status-reports.ts';
import type { SqlBool } from 'kysely';
import { insertRows } from '../db/insert.ts';
import { memoized } from '../db/memo.ts';
import type { BuildRequestRow, ProjectRow } from '../db/schema.ts';
import { projectTopic, subjectTopic, type Group, type LifecycleEvent, type WriteContext } from './write-context.ts';
import { suspect } from './forge-holds.ts';
import { decidedState, rollUpCommits, type Decided } from './apply-rollup.ts';
import type { ToldDeed } from './forge-deeds.ts';
import { notifyOfBuilds, notifyOfDependency, type ReportedEvent, type ToForges } from './webhook-events.ts';

/**
 * Consequences of changes, collected during a transaction and applied once at its end. So contended rows, above all the
 * project's, are locked only for the last moment. This also prevents deadlocks: build requests, commits, groups,
 * projects, notifications and delivery jobs are locked here, in the common order (db/lock-order.ts).
 */
interface PendingEffects {
  events: LifecycleEvent[];
  commits: Set<bigint>;
  /** Commits with a build that runs now. */
  begunCommits: Set<bigint>;
  requests: Set<bigint>;
  projects: Set<bigint>;
  dependencies: Set<bigint>;
  groups: Group[];
  /** By project. Branch names are set if known. */
  defaultHeads: Map<bigint, DefaultHead>;
  failures: Map<bigint, FailedFetch>;
  leftOut: Map<bigint, StatusReport[]>;
  /** By project. */
  deeds: Map<bigint, ToldDeed[]>;
}

export interface FailedFetch {
  reason: string;
  /** The commit, if it was found but its file was refused. */
  sha?: string | undefined;
  /** Set if the head could not be merged: the sentence for forges, and the two commits. */
  words?: string | undefined;
  merge?: Pick<BuildRequestRow, 'head_sha' | 'merge_base'> | undefined;
}

export interface DefaultHead {
  commit: bigint | null;
  branch: string | null;
}

/** One set per transaction, whatever the number of write contexts. */
const notes = (): { effects?: PendingEffects } => ({});

function effectsOf(context: WriteContext): PendingEffects {
  const memo = memoized(context.trx, notes);
  if (!memo.effects) {
    memo.effects = noEffects();
    context.db.atEnd(context.trx, () => applyEffects(context));
  }
  return memo.effects;
}

function noEffects(): PendingEffects {
  return {
    events: [],
    commits: new Set(),
    begunCommits: new Set(),
    requests: new Set(),
    projects: new Set(),
    dependencies: new Set(),
    groups: [],
    defaultHeads: new Map(),
    failures: new Map(),
    leftOut: new Map(),
    deeds: new Map(),
  };
}

export function recordEvent(context: WriteContext, event: LifecycleEvent): void {
  effectsOf(context).events.push(event);
}

export function leaveGroup(context: WriteContext, group: Group): void {
  effectsOf(context).groups.push(group);
}

export function dependencyMoved(context: WriteContext, id: bigint): void {
  effectsOf(context).dependencies.add(id);
}

/** null if no commit of the default branch was built. */
export function moveDefaultHead(context: WriteContext, projectId: bigint, defaultHead: DefaultHead): void {
  const { defaultHeads, projects } = effectsOf(context);
  defaultHeads.set(projectId, defaultHead);
  projects.add(projectId);
}

export function fetchFailed(context: WriteContext, requestId: bigint, failure: FailedFetch): void {
  effectsOf(context).failures.set(requestId, failure);
}

export function reportLeftOut(context: WriteContext, projectId: bigint, report: StatusReport): void {
  const { leftOut, projects } = effectsOf(context);
  leftOut.set(projectId, [...(leftOut.get(projectId) ?? []), report]);
  projects.add(projectId);
}

/** Dropped if the project is connected to no forge. */
export function tellForge(context: WriteContext, projectId: bigint, deed: ToldDeed): void {
  const { deeds } = effectsOf(context);
  deeds.set(projectId, [...(deeds.get(projectId) ?? []), deed]);
}

/** Marks records for recalculation. `begunOf` is recalculated unless it is `building`. */
export function rollUp(
  context: WriteContext,
  { commit, begunOf, request, project }: { commit?: bigint; begunOf?: bigint; request?: bigint; project?: bigint },
): void {
  const { commits, begunCommits, requests, projects } = effectsOf(context);
  if (commit !== undefined) commits.add(commit);
  if (begunOf !== undefined) begunCommits.add(begunOf);
  if (request !== undefined) requests.add(request);
  if (project !== undefined) projects.add(project);
}

/** Called at the end of a transaction. A caller that needs the states earlier must not lock anything afterwards. */
export async function applyEffects(context: WriteContext): Promise<void> {
  const memo = memoized(context.trx, notes);
  const { effects } = memo;
  if (!effects) return;
  memo.effects = noEffects();
  const { moved, changed } = await rollUpCommits(context, {
    commits: inOrder(effects.commits.union(effects.begunCommits)),
    begun: effects.begunCommits.difference(effects.commits),
    requests: inOrder(effects.requests),
    groups: effects.groups,
  });
  const events = [...effects.events, ...moved].map((one) => ({ ...one, ...effects.failures.get(one.subjectId) }));
  const byProject = Map.groupBy(events, ({ projectId }) => projectId);
  const behind = new Set([...effects.projects, ...changed]);
  for (const id of inOrder(new Set([...byProject.keys(), ...behind, ...effects.deeds.keys()]))) {
    const project = await holdProject(context, id);
    const defaultHead = effects.defaultHeads.get(id);
    if (defaultHead) await changeDefaultHead(context, id, defaultHead);
    const decided = behind.has(id) ? await decidedState(context, id) : undefined;
    const toForges = { leftOut: effects.leftOut.get(id) ?? [], deeds: effects.deeds.get(id) ?? [] };
    const about = { project, decided, ...toForges };
    const news = byProject.get(id) ?? [];
    if (news.some(({ reason = '' }) => refusals.includes(reason))) await suspect(context, id);
    await record(context, id, news, about);
  }
  for (const id of inOrder(effects.dependencies)) await notifyOfDependency(context, id);
}

/** Reasons of a failed fetch if a forge no longer accepts the token or the key. */
const refusals: readonly string[] = ['repository_not_found', 'key_refused'];

function inOrder(ids: Set<bigint>): bigint[] {
  return [...ids].toSorted((a, b) => (a < b ? -1 : Number(a > b)));
}

const heldColumns = [
  'last_event',
  'build_state',
  'passed_since',
  'failed_since',
  'report_left_out',
] as const satisfies (keyof ProjectRow)[];

type Held = Pick<ProjectRow, (typeof heldColumns)[number]> & { has_notifications: SqlBool };

/** Also returns whether the project has notifications: without any, no deliveries are made. */
async function holdProject({ db, trx }: WriteContext, id: bigint): Promise<Held> {
  const projects = trx
    .selectFrom('projects')
    .select(heldColumns)
    .select((of) =>
      of
        .exists(
          of
            .selectFrom('notifications')
            .select('notifications.id')
            .whereRef('notifications.project_id', '=', 'projects.id')
            .where('notifications.notifiable_type', 'in', ['build', 'status']),
        )
        .as('has_notifications'),
    )
    .where('id', '=', id);
  const project = await db.locked(projects, 'projects').executeTakeFirst();
  if (!project) throw new Error(`project ${id} is gone`);
  return project;
}

async function changeDefaultHead({ trx }: WriteContext, id: bigint, { commit, branch }: DefaultHead): Promise<void> {
  const defaultHead = { default_head_id: commit, ...(branch !== null && { default_branch: branch }) };
  await trx.updateTable('projects').set(defaultHead).where('id', '=', id).execute();
}

/** Sequences are assigned under the lock of the project's row, so a reader that continues from one misses nothing. */
async function record(
  context: WriteContext,
  id: bigint,
  news: ReportedEvent[],
  { project, decided, leftOut, deeds }: { project: Held; decided: Decided | undefined } & ToForges,
): Promise<void> {
  const { db, trx, ids } = context;
  const first = project.last_event + 1n;
  const events = news.map(({ subjectId, type, state }, at) => ({
    id: ids.next(),
    project_id: id,
    sequence: first + BigInt(at),
    subject_id: subjectId,
    type,
    state,
    created_at: BigInt(Date.now()),
  }));
  const state = decided?.state ?? project.build_state;
  const last = { last_event: project.last_event + BigInt(news.length) };
  const changed = { ...last, build_state: state, ...outcomeSince(project, state) };
  await Promise.all([
    trx.updateTable('projects').set(changed).where('id', '=', id).execute(),
    insertRows(trx, 'events', events),
  ]);
  for (const { subjectId } of news) await db.announce(trx, subjectTopic(subjectId));
  if (news.length > 0) await db.announce(trx, projectTopic(id));
  if (!project.has_notifications) return;
  const reported = withProjectStates(news, project.build_state, decided?.deciding);
  await notifyOfBuilds(context, id, reported, { leftOut: project.report_left_out === 1 ? leftOut : [], deeds });
}

/** Any other state, such as `building`, leaves both times unchanged. */
function outcomeSince({ passed_since: passed, failed_since: failed }: Held, state: string) {
  const now = BigInt(Date.now());
  if (state === 'passed') return { passed_since: passed ?? now, failed_since: null };
  if (state === 'failed' || state === 'errored') return { passed_since: null, failed_since: failed ?? now };
  return { passed_since: passed, failed_since: failed };
}

/** The project's old state until the event of the deciding commit, and the new one from there on. */
function withProjectStates(events: ReportedEvent[], before: string, deciding: bigint | undefined): ReportedEvent[] {
  const decides = ({ type, subjectId }: ReportedEvent): boolean => type === 'commit' && subjectId === deciding;
  let projectState = events.some(decides) ? before : undefined;
  return events.map((news) => {
    if (decides(news)) projectState = news.state;
    return { ...news, projectState };
  });
}
