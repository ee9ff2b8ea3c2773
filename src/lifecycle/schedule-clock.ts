import type { Database } from '../db/open.ts';
import type { IdSource } from '../lib/ids.ts';
import { repeatLook } from '../lib/repeated-look.ts';
import { mendSchedules, nextScheduleAt, runDueSchedules, schedulesTopic } from './schedules.ts';

export interface ScheduleClockParts {
  db: Database;
  ids: IdSource;
  /** What time it is, in milliseconds since 1970. */
  now: () => number;
  trouble: (error: unknown) => void;
}

export interface ScheduleClock {
  /** Looks whether something is due, as it also does by itself. */
  look(): void;
  close(): Promise<void>;
}

/** Announcements can be lost, and clocks can be set: so often the store is asked what is due next. */
const lookEvery = 15_000;

/** Runs schedules when they are due. Every server does; of those that come at once, one asks for the build. */
export function startScheduleClock({ db, ids, now, trouble }: ScheduleClockParts): ScheduleClock {
  const looks = repeatLook(
    async () => {
      await mendSchedules(db, now());
      if ((await runDueSchedules(db, ids, now(), trouble)) > 0) return 0; // there may be more, and what is next is known only now
      const next = await nextScheduleAt(db.read);
      return next === undefined ? lookEvery : Math.max(1, next - now());
    },
    { everyMs: lookEvery, trouble },
  );
  const stopListening = db.listen(
    (topic) => {
      if (topic === schedulesTopic) looks.now();
    },
    () => looks.now(),
  );
  looks.now();
  return {
    look: () => looks.now(),
    async close() {
      stopListening();
      await looks.close();
    },
  };
}
