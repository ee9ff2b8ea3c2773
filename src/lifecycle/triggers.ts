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

/** Asks for a build in the name of the project's owner, as far as the project lets it. */
export async function triggerRequest(
  context: WriteContext,
  project: TriggeredProject,
  asked: { commitRef: string; trigger: Trigger },
): Promise<Triggered> {
  const [owner] = await findOwner(context.trx, { id: project.owner_id });
  if (!owner) return ignored('The account of the project’s owner is gone.');
  if (owner.suspended === 1) return ignored('The account of the project’s owner is suspended.');
  if (owner.billing !== 'ok') return ignored('The account of the project’s owner is not paid for.');
  const policy = project.fork_builds as ForkPolicy;
  const { fromFork } = asked.trigger;
  if (fromFork && policy === 'never') return ignored('It comes from a fork, and fork_builds of the project is never.');
  const isHeld = fromFork && policy === 'approval';
  const superseded = await supersede(context, project, asked.trigger);
  const request = await openRequest(context, project, { ...asked, createdBy: project.owner_id, isHeld });
  const reason = superseded === 0 ? '' : `${superseded} older ${superseded === 1 ? 'request' : 'requests'} superseded.`;
  if (!isHeld) return { outcome: 'build_requested', reason, request };
  const held = 'It comes from a fork, and fork_builds of the project is approval.';
  return { outcome: 'waiting_for_approval', reason: `${held} ${reason}`.trim(), request };
}

function ignored(reason: string): Triggered {
  return { outcome: 'ignored', reason };
}

/** Cancels older requests of the same branch or pull request, as far as the project wants that; answers how many. */
async function supersede(context: WriteContext, project: TriggeredProject, { group }: Trigger): Promise<number> {
  const policy = project.cancel_superseded as SupersededPolicy;
  if (policy === 'none' || group === '') return 0;
  // Of two that come at once, the second sees the first. Below zero, because fetches hold the number itself.
  await context.db.holdNumber(context.trx, -project.id);
  const older = await context.trx
    .selectFrom('build_requests')
    .selectAll()
    .where('project_id', '=', project.id)
    .where('concurrency_group', '=', group)
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
  return older.length;
}
