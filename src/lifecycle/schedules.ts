import type { Database, Queries, Transaction } from '../db/open.ts';
import type { ProjectRow, ScheduleRow } from '../db/schema.ts';
import { isUnavailable } from '../db/unavailable.ts';
import type { IdSource } from '../lib/ids.ts';
import { parseCron } from './cron.ts';
import { applyLedger } from './ledger.ts';
import { triggerRequest } from './triggers.ts';
import type { WriteContext } from './write-context.ts';

/**
 * Builds that the clock asks for. A schedule knows its next time. Whoever runs what is due moves it on in the transaction
 * that asks for the build, and only from the time that it was found with: so each time is run once, by whichever server
 * comes first. What fell due while nobody was there is one time in the past, and so it is made up once.
 *
 * A clock that is set back makes no time come again: the next one is still ahead.
 */

/** Announced when a schedule may be due earlier than anybody knows. */
export const schedulesTopic = 'schedules';

/** When a schedule was run later than this after now, the clock was wrong then, and its next time is worked out anew. */
const clockWasWrongMs = 24 * 60 * 60 * 1000;
const mostAtOnce = 50;
const never = Date.UTC(9999, 11, 31);

export type ScheduleSettings = Pick<ScheduleRow, 'cron' | 'time_zone' | 'commit_ref'>;

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

/** One without a next time is refused; but a time zone may be unknown to the Node of tomorrow. */
function nextRun({ cron, time_zone: timeZone }: ScheduleSettings, now: number): bigint {
  return BigInt(parseCron(cron, timeZone)?.after(now) ?? never);
}

/** When the next schedule is due; undefined where there is none. */
export async function nextScheduleAt(db: Queries): Promise<number | undefined> {
  const next = await db
    .selectFrom('schedules')
    .select('next_run_at')
    .orderBy('next_run_at')
    .limit(1)
    .executeTakeFirst();
  return next && Number(next.next_run_at);
}

/** Runs what is due, and answers how many were run. One that cannot be run keeps nobody else from it. */
export async function runDueSchedules(
  db: Database,
  ids: IdSource,
  now: number,
  trouble: (error: unknown) => void,
): Promise<number> {
  const due = await db.read
    .selectFrom('schedules')
    .select(['id', 'next_run_at'])
    .where('next_run_at', '<=', BigInt(now))
    .orderBy('next_run_at')
    .orderBy('id')
    .limit(mostAtOnce)
    .execute();
  let run = 0;
  for (const schedule of due) {
    try {
      await db.transaction((trx) => runSchedule({ db, trx, ids }, schedule, now));
      run += 1;
    } catch (error) {
      if (isUnavailable(error)) throw error;
      if (error instanceof ChangedError) run += 1;
      else trouble(error);
    }
  }
  return run;
}

/** Somebody changed or deleted a schedule while it was run: that is undone, and it is looked at again as it is now. */
class ChangedError extends Error {}

type Due = Pick<ScheduleRow, 'id' | 'next_run_at'>;

async function runSchedule(context: WriteContext, { id, next_run_at: dueAt }: Due, now: number): Promise<void> {
  const { db, trx, ids } = context;
  await db.holdNumber(trx, id); // of two servers that come at once, the second finds it done
  const schedule = await trx
    .selectFrom('schedules')
    .selectAll()
    .where('id', '=', id)
    .where('next_run_at', '=', dueAt)
    .executeTakeFirst();
  if (!schedule) return;
  const project = await trx
    .selectFrom('projects')
    .select(['id', 'owner_id', 'fork_builds', 'cancel_superseded'])
    .where('id', '=', schedule.project_id)
    .executeTakeFirstOrThrow();
  const { outcome, reason, request } = await askForBuild(context, project, schedule);
  await applyLedger({ db, trx, ids }); // what others may hold comes before the schedule: see ledger.ts
  const { numUpdatedRows } = await trx
    .updateTable('schedules')
    .set({
      next_run_at: nextRun(schedule, now),
      last_run_at: BigInt(now),
      outcome,
      reason: [lateness(now - Number(dueAt)), reason].filter((words) => words !== '').join(' '),
      build_request_id: request?.id ?? null,
    })
    .where('id', '=', id)
    .where('next_run_at', '=', dueAt)
    .executeTakeFirst();
  if (numUpdatedRows !== 1n) throw new ChangedError();
}

function askForBuild(
  context: WriteContext,
  project: Pick<ProjectRow, 'id' | 'owner_id' | 'fork_builds' | 'cancel_superseded'>,
  { id, commit_ref: commitRef }: ScheduleRow,
) {
  return triggerRequest(context, project, {
    commitRef: commitRef === '' ? 'HEAD' : commitRef,
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
  return 'It was due while no server ran, and is made up once.';
}

/** Schedules that a wrong clock has put far ahead go by the clock as it is now. */
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
