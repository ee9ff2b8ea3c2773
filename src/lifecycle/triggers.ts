import { sql } from 'kysely';
import type { BuildRequestRow, ProjectRow, UserRow } from '../db/schema.ts';
import { mostWaitingJobs } from '../domain/bounds.ts';
import { isQueueFull } from './full-queue.ts';
import { cancelRequests, openRequest, type Trigger } from './requests.ts';
import type { WriteContext } from './write-context.ts';

/**
 * Starts builds without a user's request: hooks, polls and schedules call this once they know which commit to build.
 */

export type TriggerOutcome = 'build_requested' | 'waiting_for_approval' | 'ignored';

export interface Triggered {
  outcome: TriggerOutcome;
  /** Why, as a sentence; empty where a build was started and there is nothing to add. */
  reason: string;
  request?: BuildRequestRow;
}

type TriggeredProject = Pick<ProjectRow, 'id' | 'owner_id' | 'fork_builds' | 'cancel_superseded' | 'config_file'>;

export interface TriggeredBuild {
  commitRef: string;
  trigger: Trigger;
}

/** Starts one build in the name of the project's owner, if the project's settings allow it. */
export async function triggerRequest(
  context: WriteContext,
  project: TriggeredProject,
  asked: TriggeredBuild,
): Promise<Triggered> {
  const [triggered] = await triggerRequests(context, project, [asked]);
  if (!triggered) throw new Error('every request that is asked for has an outcome');
  return triggered;
}

/**
 * Starts several builds, and returns results in the same order. Older requests are cancelled before the first new one
 * is opened: cancelling locks jobs, and opening a request may lock a commit, which comes after jobs in the order of
 * locks (pending-effects.ts).
 */
export async function triggerRequests(
  context: WriteContext,
  project: TriggeredProject,
  all: readonly TriggeredBuild[],
): Promise<Triggered[]> {
  const owners = context.trx.selectFrom('users').select(['suspended', 'billing']).where('id', '=', project.owner_id);
  const owner = await owners.executeTakeFirst();
  const isFull = await isQueueFull(context.trx, project.id);
  const refusals = all.map(({ trigger }) => (isFull ? queueIsFull : whyNot(owner, project, trigger)));
  const groups = all.filter((_, at) => refusals[at] === undefined).map(({ trigger }) => trigger.group);
  const superseded = await supersede(context, project, groups);
  await holdKnownCommits(context, project, all);
  const triggered: Triggered[] = [];
  for (const [at, asked] of all.entries()) {
    const refusal = refusals[at];
    const count = superseded.get(asked.trigger.group) ?? 0;
    triggered.push(
      refusal === undefined ? await open(context, project, asked, count) : { outcome: 'ignored', reason: refusal },
    );
  }
  return triggered;
}

/**
 * Locks all commits at once, in the order of their identifiers, because two triggers may name the same commits in
 * different orders.
 */
async function holdKnownCommits(
  { db, trx }: WriteContext,
  project: TriggeredProject,
  all: readonly TriggeredBuild[],
): Promise<void> {
  const refs = all.map(({ commitRef }) => commitRef);
  const commits = trx.selectFrom('commits').select('id').where('project_id', '=', project.id).where('ref', 'in', refs);
  if (refs.length > 1) await db.locked(commits.orderBy('id'), 'commits').execute();
}

const queueIsFull = `The account of the project’s owner has ${mostWaitingJobs} jobs that wait, and may not have more.`;

function whyNot(
  owner: Pick<UserRow, 'suspended' | 'billing'> | undefined,
  project: TriggeredProject,
  { fromFork }: Trigger,
): string | undefined {
  if (!owner) return 'The account of the project’s owner is gone.';
  if (owner.suspended === 1) return 'The account of the project’s owner is suspended.';
  if (owner.billing !== 'ok') return 'The account of the project’s owner is not paid for.';
  const isNever = project.fork_builds === 'never';
  return fromFork && isNever ? 'It comes from a fork, and fork_builds of the project is never.' : undefined;
}

async function open(
  context: WriteContext,
  project: TriggeredProject,
  asked: TriggeredBuild,
  superseded: number,
): Promise<Triggered> {
  const isHeld = asked.trigger.fromFork && project.fork_builds === 'approval';
  const request = await openRequest(context, project, { ...asked, createdBy: project.owner_id, isHeld });
  const reason = superseded === 0 ? '' : `${superseded} older ${superseded === 1 ? 'request' : 'requests'} superseded.`;
  if (!isHeld) return { outcome: 'build_requested', reason, request };
  const held = 'It comes from a fork, and fork_builds of the project is approval.';
  return { outcome: 'waiting_for_approval', reason: `${held} ${reason}`.trim(), request };
}

/**
 * Cancels older requests of the same branches and pull requests, as the project's settings say. Returns how many of
 * each.
 */
async function supersede(
  context: WriteContext,
  project: TriggeredProject,
  groups: readonly string[],
): Promise<ReadonlyMap<string, number>> {
  const policy = project.cancel_superseded;
  const named = [...new Set(groups)].filter((group) => group !== '');
  if (policy === 'none' || named.length === 0) return new Map();
  // Of two triggers at the same time, the second sees the requests of the first. The number is negative because fetches
  // lock the positive one.
  await context.db.holdNumber(context.trx, -project.id);
  const older = await context.trx
    .selectFrom('build_requests')
    .selectAll()
    .where('project_id', '=', project.id)
    .where('concurrency_group', 'in', named)
    // The same words as in the index, so that the index is used.
    .where(sql<boolean>`build_state in ('waiting_for_approval', 'enqueued', 'fetching', 'building')`)
    .$if(policy === 'waiting', (query) =>
      query.where((where) =>
        where.not(
          where.exists(
            where
              .selectFrom('builds')
              .select('builds.id')
              .whereRef('builds.build_request_id', '=', 'build_requests.id')
              .where('builds.build_state', 'not in', ['enqueued', 'waiting_for_approval']),
          ),
        ),
      ),
    )
    .orderBy('id')
    .execute();
  await cancelRequests(context, older);
  const byGroup = Map.groupBy(older, ({ concurrency_group: group }) => group);
  return new Map(Array.from(byGroup, ([group, requests]) => [group, requests.length]));
}
