import { sql } from 'kysely';
import { prepared } from '../db/prepared.ts';
import type { BuildRequestRow, ProjectRow, UserRow } from '../db/schema.ts';
import type { ForkPolicy } from './forks.ts';
import { callOff, openRequest, type Trigger } from './requests.ts';
import type { WriteContext } from './write-context.ts';

/** Builds that nobody asks for by hand: hooks, polls and schedules come here once they know what is to be built. */

export const supersededPolicies = ['none', 'waiting', 'running'] as const;
export type SupersededPolicy = (typeof supersededPolicies)[number];

export type TriggerOutcome = 'build_requested' | 'waiting_for_approval' | 'ignored';

export interface Triggered {
  outcome: TriggerOutcome;
  /** Why, in words; blank where a build was asked for and there is nothing to say. */
  reason: string;
  request?: BuildRequestRow;
}

type TriggeredProject = Pick<ProjectRow, 'id' | 'owner_id' | 'fork_builds' | 'cancel_superseded'>;

const findOwner = prepared<{ id: bigint }, Pick<UserRow, 'suspended' | 'billing'>>((db, value) =>
  db.selectFrom('users').select(['suspended', 'billing']).where('id', '=', value('id')),
);

/** What is to be built, and why. */
export interface Asked {
  commitRef: string;
  trigger: Trigger;
}

/** Asks for one build in the name of the project's owner, as far as the project lets it. */
export async function triggerRequest(
  context: WriteContext,
  project: TriggeredProject,
  asked: Asked,
): Promise<Triggered> {
  const [triggered] = await triggerRequests(context, project, [asked]);
  if (!triggered) throw new Error('every request that is asked for has an outcome');
  return triggered;
}

/**
 * Asks for several builds, and answers in their order. Older requests are cancelled before the first new one is opened:
 * that locks jobs, and a new request may lock a commit, which comes after them (ledger.ts).
 */
export async function triggerRequests(
  context: WriteContext,
  project: TriggeredProject,
  all: readonly Asked[],
): Promise<Triggered[]> {
  const [owner] = await findOwner(context.trx, { id: project.owner_id });
  const refusals = all.map(({ trigger }) => whyNot(owner, project, trigger));
  const groups = all.filter((_, at) => refusals[at] === undefined).map(({ trigger }) => trigger.group);
  const superseded = await supersede(context, project, groups);
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

function whyNot(
  owner: Pick<UserRow, 'suspended' | 'billing'> | undefined,
  project: TriggeredProject,
  { fromFork }: Trigger,
): string | undefined {
  if (!owner) return 'The account of the project’s owner is gone.';
  if (owner.suspended === 1) return 'The account of the project’s owner is suspended.';
  if (owner.billing !== 'ok') return 'The account of the project’s owner is not paid for.';
  const isNever = (project.fork_builds as ForkPolicy) === 'never';
  return fromFork && isNever ? 'It comes from a fork, and fork_builds of the project is never.' : undefined;
}

async function open(
  context: WriteContext,
  project: TriggeredProject,
  asked: Asked,
  superseded: number,
): Promise<Triggered> {
  const isHeld = asked.trigger.fromFork && (project.fork_builds as ForkPolicy) === 'approval';
  const request = await openRequest(context, project, { ...asked, createdBy: project.owner_id, isHeld });
  const reason = superseded === 0 ? '' : `${superseded} older ${superseded === 1 ? 'request' : 'requests'} superseded.`;
  if (!isHeld) return { outcome: 'build_requested', reason, request };
  const held = 'It comes from a fork, and fork_builds of the project is approval.';
  return { outcome: 'waiting_for_approval', reason: `${held} ${reason}`.trim(), request };
}

/**
 * Cancels older requests of the same branches and pull requests, as far as the project wants that; answers how many of
 * each.
 */
async function supersede(
  context: WriteContext,
  project: TriggeredProject,
  groups: readonly string[],
): Promise<ReadonlyMap<string, number>> {
  const policy = project.cancel_superseded as SupersededPolicy;
  const named = [...new Set(groups)].filter((group) => group !== '');
  if (policy === 'none' || named.length === 0) return new Map();
  // Of two that come at once, the second sees the first. Below zero, because fetches hold the number itself.
  await context.db.holdNumber(context.trx, -project.id);
  const older = await context.trx
    .selectFrom('build_requests')
    .selectAll()
    .where('project_id', '=', project.id)
    .where('concurrency_group', 'in', named)
    // In the words of the index.
    .where(sql<boolean>`build_state in ('waiting_for_approval', 'enqueued', 'fetching', 'building')`)
    .$if(policy === 'waiting', (query) =>
      query.where((where) =>
        where.not(
          where.exists(
            where
              .selectFrom('builds')
              .select('builds.id')
              .whereRef('builds.build_request_id', '=', 'build_requests.id')
              .where('builds.build_state', '!=', 'enqueued'),
          ),
        ),
      ),
    )
    .orderBy('id')
    .execute();
  await callOff(context, older);
  const byGroup = Map.groupBy(older, ({ concurrency_group: group }) => group);
  return new Map(Array.from(byGroup, ([group, requests]) => [group, requests.length]));
}
