import { startWorkLoop } from '../db/work-loop.ts';
import { nextDue, schedules } from '../queue/due.ts';
import { mendSchedules, runDueSchedules, schedulesTopic } from './schedules.ts';
import type { WriteContext } from '../lifecycle/write-context.ts';

export interface ScheduleClockParts extends Omit<WriteContext, 'trx'> {
  /** In milliseconds since 1970. */
  now: () => number;
  onError: (error: unknown) => void;
}

export interface ScheduleClock {
  close(): Promise<void>;
}

/** Announcements can be lost and clocks can change, so the next due time is read this often. */
const checkEveryMs = 15_000;

/** Every server has such a clock. For each due time only one of them starts the build. */
export function startScheduleClock({ now, onError, ...deps }: ScheduleClockParts): ScheduleClock {
  const { db } = deps;
  return startWorkLoop(
    db,
    schedulesTopic,
    async () => {
      await mendSchedules(db, now());
      if ((await runDueSchedules(deps, now(), onError)) > 0) return 0;
      return Math.max(1, (await nextDue(db.read, schedules)) - now());
    },
    { everyMs: checkEveryMs, onError },
  );
}
