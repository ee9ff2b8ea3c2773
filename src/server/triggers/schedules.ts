import { sql } from 'kysely';
import type { Database, Queries, Transaction } from '../db/open.ts';
import type { ScheduleRow } from '../db/schema.ts';
import { isUnavailable } from '../db/unavailable.ts';
import type { ColumnsOf } from '../../shared/records/fields.ts';
import type { scheduleFields } from '../../shared/records/trigger.ts';
import { parseCron } from '../../shared/domain/cron.ts';
import { applyEffects } from '../lifecycle/pending-effects.ts';
import { triggerRequest } from './triggers.ts';
import type { WriteContext } from '../lifecycle/write-context.ts';

/**
 * In one transaction a server runs a due schedule and stores its next time, if the stored time is still the one it
 * read. So each time runs once, even after a clock is set back. Times that passed while no server ran are one stored
 * time, so one build makes up for them.
 */

/** Announced when a schedule may be due earlier than the waiting servers know. */
export const schedulesTopic = 'schedules';

/** If the last run is this far in the future, the clock was wrong, and the next time is recalculated. */
const clockWasWrongMs = 24 * 60 * 60 * 1000;
const mostAtOnce = 20;
const never = Date.UTC(9999, 11, 31);

export type ScheduleSettings = ColumnsOf<typeof scheduleFields>;

export async function addSchedule(
  { db, trx, ids }: WriteContext,
  projectId: bigint,
  settings: ScheduleSettings,
  now: number,
): Promise<ScheduleRow> {
  const schedule: ScheduleRow = {
    id: ids.next(),
    project_id: projectId,
    ...settings,
    created_at: BigInt(now),
    next_run_at: nextRun(settings, now),
    last_run_at: null,
    outcome: '',
    reason: '',
    build_request_id: null,
  };
  await trx.insertInto('schedules').values(schedule).execute();
  await db.announce(trx, schedulesTopic);
  return schedule;
}

export async function changeSchedule(
  { db, trx }: WriteContext,
  schedule: ScheduleRow,
  settings: Partial<ScheduleSettings>,
  now: number,
): Promise<ScheduleRow> {
  const changed = { ...schedule, ...settings };
  const isMoved = changed.cron !== schedule.cron || changed.time_zone !== schedule.time_zone;
  const values = { ...settings, ...(isMoved && { next_run_at: nextRun(changed, now) }) };
  if (Object.keys(values).length > 0) {
    await trx.updateTable('schedules').set(values).where('id', '=', schedule.id).execute();
    await db.announce(trx, schedulesTopic);
  }
  return { ...changed, ...values };
}

export async function deleteSchedule({ trx }: WriteContext, id: bigint): Promise<void> {
  await trx.deleteFrom('schedules').where('id', '=', id).execute();
}

/** A schedule without a next time is refused. But a later Node may no longer know the schedule's time zone. */
function nextRun({ cron, time_zone: timeZone }: ScheduleSettings, now: number): bigint {
  return BigInt(parseCron(cron, timeZone)?.after(now) ?? never);
}

/**
 * Each account's longest-due schedule comes first, then each account's next one. So an account with a thousand due
 * schedules delays other accounts by only a few. Schedules that become due meanwhile are for the next call.
 */
function dueByTurns(db: Queries, now: number): Promise<Due[]> {
  return db
    .selectFrom((of) =>
      of
        .selectFrom('schedules')
        .innerJoin('projects', 'projects.id', 'schedules.project_id')
        .select(['schedules.id', 'schedules.next_run_at'])
        .select(
          sql<number>`row_number() over (partition by projects.owner_id order by schedules.next_run_at, schedules.id)`.as(
            'turn',
          ),
        )
        .where('schedules.next_run_at', '<=', BigInt(now))
        .as('due'),
    )
    .select(['due.id', 'due.next_run_at'])
    .orderBy('due.turn')
    .orderBy('due.next_run_at')
    .orderBy('due.id')
    .limit(mostAtOnce)
    .execute();
}

/** A failing schedule does not stop other schedules. */
export async function runDueSchedules(
  { db, ids, observers }: Omit<WriteContext, 'trx'>,
  now: number,
  onError: (error: unknown) => void,
): Promise<number> {
  let run = 0;
  for (const schedule of await dueByTurns(db.read, now)) {
    try {
      await db.transaction((trx) => runSchedule({ db, trx, ids, observers }, schedule, now));
      run += 1;
    } catch (error) {
      if (isUnavailable(error)) throw error;
      if (error instanceof ChangedError) run += 1;
      else onError(error);
    }
  }
  return run;
}

/** A user changed or deleted the schedule during its run: the run is undone, and the schedule is read again. */
class ChangedError extends Error {}

type Due = Pick<ScheduleRow, 'id' | 'next_run_at'>;

async function runSchedule(context: WriteContext, { id, next_run_at: dueAt }: Due, now: number): Promise<void> {
  const { db, trx } = context;
  await db.holdRight(trx, 'schedule', id); // Of two servers at the same time, the second finds that it is done.
  const schedule = await trx
    .selectFrom('schedules')
    .selectAll()
    .where('id', '=', id)
    .where('next_run_at', '=', dueAt)
    .executeTakeFirst();
  if (!schedule) return;
  const project = await trx
    .selectFrom('projects')
    .select(['id', 'owner_id', 'fork_builds', 'cancel_superseded', 'config_file', 'build_twice', 'parameters'])
    .select('pull_request_builds')
    .where('id', '=', schedule.project_id)
    .executeTakeFirstOrThrow();
  const { outcome, reason, request } = await askForBuild(context, project, schedule);
  await applyEffects(context); // contended rows are locked before the schedule (db/lock-order.ts)
  const { numUpdatedRows } = await trx
    .updateTable('schedules')
    .set({
      next_run_at: nextRun(schedule, now),
      last_run_at: BigInt(now),
      outcome,
      reason: [lateness(now - Number(dueAt)), reason].filter((text) => text !== '').join(' '),
      build_request_id: request?.id ?? null,
    })
    .where('id', '=', id)
    .where('next_run_at', '=', dueAt)
    .executeTakeFirst();
  if (numUpdatedRows !== 1n) throw new ChangedError();
}

function askForBuild(
  context: WriteContext,
  project: Parameters<typeof triggerRequest>[1],
  { id, commit_ref: commitRef, variables, reuse }: ScheduleRow,
) {
  return triggerRequest(context, project, {
    commitRef: commitRef === '' ? 'HEAD' : commitRef,
    variables,
    reuse,
    trigger: {
      source: `schedule:${id}`,
      event: 'schedule',
      pullRequest: null,
      targetBranch: '',
      fromFork: false,
      sender: '',
      fetchRef: '',
      group: '',
    },
  });
}

const onTimeMs = 60_000;

function lateness(ms: number): string {
  if (ms <= onTimeMs) return '';
  return 'It was due while no server ran, so it runs once now.';
}

/** Corrects schedules that a wrong clock has put far ahead. */
export async function mendSchedules(db: Database, now: number): Promise<void> {
  const ahead = await db.read
    .selectFrom('schedules')
    .selectAll()
    .where('last_run_at', '>', BigInt(now + clockWasWrongMs))
    .execute();
  for (const schedule of ahead) await db.transaction((trx) => mend(trx, schedule, now));
}

async function mend(trx: Transaction, schedule: ScheduleRow, now: number): Promise<void> {
  await trx
    .updateTable('schedules')
    .set({ next_run_at: nextRun(schedule, now), last_run_at: BigInt(now) })
    .where('id', '=', schedule.id)
    .where('next_run_at', '=', schedule.next_run_at)
    .execute();
}
