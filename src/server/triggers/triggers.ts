import { sql } from 'kysely';
import type { BuildRequestRow, ProjectRow, UserRow } from '../db/schema.ts';
import { mostWaitingJobs } from '../../shared/domain/bounds.ts';
import { holdRequests } from '../lifecycle/apply-rollup.ts';
import { isQueueFull } from '../lifecycle/full-queue.ts';
import { findAlike, joinKey } from '../lifecycle/joined-requests.ts';
import { cancelRequests } from '../lifecycle/cancel-requests.ts';
import { openRequest, type Owned, type Trigger } from '../lifecycle/requests.ts';
import type { WriteContext } from '../lifecycle/write-context.ts';

/** Requests builds for hooks, polls and schedules, once they know the commit. */

export type TriggerOutcome = 'build_requested' | 'waiting_for_approval' | 'ignored';

export interface Triggered {
  outcome: TriggerOutcome;
  /** A sentence, or empty. */
  reason: string;
  request?: BuildRequestRow;
}

type TriggeredProject = Pick<ProjectRow, 'fork_builds' | 'cancel_superseded'> & Owned;

export interface TriggeredBuild {
  commitRef: string;
  /** As JSON; none is secret. */
  variables?: string;
  reuse?: number;
  trigger: Trigger;
}

/** Requests a build in the name of the project's owner, if the settings allow it. */
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
 * Cancels older requests first, because cancelling locks jobs and opening may lock a commit, which is later in
 * db/lock-order.ts.
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
  const keys = all.map(({ commitRef, trigger }) => joinKey(commitRef, trigger.headBranch ?? ''));
  const alike = await findAlike(context.trx, project.id, keys);
  const superseded = await supersede(context, project, { groups, alike });
  await holdKnownCommits(context, project, all);
  const triggered: Triggered[] = [];
  for (const [at, asked] of all.entries()) {
    const refusal = refusals[at];
    const count = superseded.get(asked.trigger.group) ?? 0;
    triggered.push(
      refusal === undefined
        ? await open(context, project, asked, { superseded: count, alike })
        : { outcome: 'ignored', reason: refusal },
    );
  }
  return triggered;
}

/** In the order of their ids, because two triggers may name the same commits in different orders. */
async function holdKnownCommits(
  { db, trx }: WriteContext,
  project: TriggeredProject,
  all: readonly TriggeredBuild[],
): Promise<void> {
  const refs = all.map(({ commitRef }) => commitRef);
  const commits = trx.selectFrom('commits').select('id').where('project_id', '=', project.id).where('ref', 'in', refs);
  if (refs.length > 1) await db.locked(commits.orderBy('id'), 'commits').execute();
}

const queueIsFull = `The account of the project’s owner has ${mostWaitingJobs} waiting jobs, which is the limit.`;

function whyNot(
  owner: Pick<UserRow, 'suspended' | 'billing'> | undefined,
  project: TriggeredProject,
  { fromFork }: Trigger,
): string | undefined {
  if (!owner) return 'The account of the project’s owner was deleted.';
  if (owner.suspended === 1) return 'The account of the project’s owner is suspended.';
  if (owner.billing !== 'ok') return 'The account of the project’s owner is not paid for.';
  const isNever = project.fork_builds === 'never';
  return fromFork && isNever ? 'It comes from a fork, and fork_builds of the project is never.' : undefined;
}

async function open(
  context: WriteContext,
  project: TriggeredProject,
  asked: TriggeredBuild,
  { superseded, alike }: { superseded: number; alike: readonly bigint[] },
): Promise<Triggered> {
  const isHeld = asked.trigger.fromFork && project.fork_builds === 'approval';
  const request = await openRequest(context, project, { ...asked, createdBy: project.owner_id, isHeld, alike });
  const reason = superseded === 0 ? '' : `${superseded} older ${superseded === 1 ? 'request' : 'requests'} superseded.`;
  if (!isHeld) return { outcome: 'build_requested', reason, request };
  const held = 'It comes from a fork, and fork_builds of the project is approval.';
  return { outcome: 'waiting_for_approval', reason: `${held} ${reason}`.trim(), request };
}

/**
 * Cancels older requests of these groups, as the project's settings require, and returns their number in each group.
 * Also locks the requests in `alike`, because all requests are locked in one order.
 */
async function supersede(
  context: WriteContext,
  project: TriggeredProject,
  { groups, alike }: { groups: readonly string[]; alike: readonly bigint[] },
): Promise<ReadonlyMap<string, number>> {
  const policy = project.cancel_superseded;
  const named = [...new Set(groups)].filter((group) => group !== '');
  if (policy === 'none' || named.length === 0) {
    await holdRequests(context, alike);
    return new Map();
  }
  // Of two triggers at the same time, the second sees the requests of the first.
  await context.db.holdRight(context.trx, 'superseding', project.id);
  const older = await context.trx
    .selectFrom('build_requests')
    .selectAll()
    .where('project_id', '=', project.id)
    .where('concurrency_group', 'in', named)
    // Repeats the index's condition word for word. Otherwise the database would not use the index.
    .where(sql<boolean>`build_state in ('waiting_for_approval', 'enqueued', 'fetching', 'building')`)
    .$if(policy === 'waiting', (query) =>
      query.where((where) =>
        where.not(
          where.exists(
            where
              .selectFrom('builds')
              .select('builds.id')
              .where(isOfBoth)
              .where('builds.build_state', 'not in', ['enqueued', 'waiting_for_approval']),
          ),
        ),
      ),
    )
    .orderBy('id')
    .execute();
  await cancelRequests(context, older, alike);
  const byGroup = Map.groupBy(older, ({ concurrency_group: group }) => group);
  return new Map(Array.from(byGroup, ([group, requests]) => [group, requests.length]));
}

/** The request, the request that it joined, and the requests that joined it. */
const isOfBoth = sql<boolean>`builds.build_request_id in (
  select own.id from build_requests as own
  where own.id = build_requests.id or own.id = build_requests.joined_to_id or own.joined_to_id = build_requests.id
)`;
