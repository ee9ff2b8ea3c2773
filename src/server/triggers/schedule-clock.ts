import { startWorkLoop } from '../db/work-loop.ts';
import { mendSchedules, nextScheduleAt, runDueSchedules, schedulesTopic } from './schedules.ts';
import type { WriteContext } from '../lifecycle/write-context.ts';

export interface ScheduleClockParts extends Omit<WriteContext, 'trx'> {
  /** The time in milliseconds since 1970. */
  now: () => number;
  trouble: (error: unknown) => void;
}

export interface ScheduleClock {
  close(): Promise<void>;
}

/** Announcements can be lost, and clocks can be changed. So the database is asked this often for the next due time. */
const checkEveryMs = 15_000;

/**
 * Runs schedules when they are due. Every server has such a clock; for each due time only one of them starts the build.
 */
export function startScheduleClock({ now, trouble: onError, ...services }: ScheduleClockParts): ScheduleClock {
  const { db } = services;
  return startWorkLoop(
    db,
    schedulesTopic,
    async () => {
      await mendSchedules(db, now());
      // More may be due, and only now is the next time known.
      if ((await runDueSchedules(services, now(), onError)) > 0) return 0;
      const next = await nextScheduleAt(db.read);
      return next === undefined ? checkEveryMs : Math.max(1, next - now());
    },
    { everyMs: checkEveryMs, onError },
  );
}
