import { Cron } from 'croner';

/**
 * Five cron fields, in a time zone.
 *
 * When clocks change, a local time that does not exist runs at the moment of the change. A time that comes twice runs
 * the first time. With `*` as the hour, every hour that passes has one run.
 */

/** Extensions that only some programs know (`L`, `W`, `#`, `?`, `@daily`) are refused. */
const field = /^(?:\*|[0-9]+|[A-Za-z]{3})(?:-(?:[0-9]+|[A-Za-z]{3}))?(?:\/[0-9]+)?$/;
const minuteMs = 60_000;
const dayMs = 24 * 60 * minuteMs;

export interface CronTimes {
  /** In milliseconds since 1970. Undefined if there is none. */
  after(moment: number): number | undefined;
}

/** Undefined if the text is not five valid fields. */
export function parseCron(text: string, timeZone: string): CronTimes | undefined {
  const fields = text.trim().split(/\s+/);
  if (fields.length !== 5 || !fields.every((one) => one.split(',').every((part) => field.test(part)))) return undefined;
  try {
    const isHourly = fields[1] === '*';
    const cron = new Cron(fields.join(' '), { timezone: isHourly ? timeZone : 'UTC', mode: '5-part', paused: true });
    const next = (moment: number): number | undefined => cron.nextRun(new Date(moment))?.getTime();
    return { after: isHourly ? next : byWallClock(next, timeZone) };
  } catch {
    return undefined;
  }
}

/** Steps through the local times as if they were UTC, and converts each. */
function byWallClock(next: (wall: number) => number | undefined, timeZone: string): CronTimes['after'] {
  const offsetAt = offsets(timeZone);
  return (moment) => {
    let wall = next(moment + offsetAt(moment));
    while (wall !== undefined) {
      const found = momentOf(wall, offsetAt);
      if (found > moment) return found;
      wall = next(wall); // This local time comes twice, and its first time is over.
    }
    return undefined;
  };
}

/** The first moment if the local time comes twice, or the change of clocks if it does not exist. */
function momentOf(wall: number, offsetAt: (moment: number) => number): number {
  const [before, after] = [offsetAt(wall - dayMs), offsetAt(wall + dayMs)];
  const found = [wall - before, wall - after].find((moment) => moment + offsetAt(moment) === wall);
  if (found !== undefined) return found;
  let [low, high] = [wall - dayMs, wall + dayMs];
  while (high - low > minuteMs) {
    const middle = Math.floor((low + high) / 2 / minuteMs) * minuteMs;
    if (offsetAt(middle) === before) low = middle;
    else high = middle;
  }
  return high;
}

/** How far the zone is ahead of UTC at a moment, in milliseconds. */
function offsets(timeZone: string): (moment: number) => number {
  const how = { year: 'numeric', month: 'numeric', day: 'numeric', hour: 'numeric', minute: 'numeric' } as const;
  const format = new Intl.DateTimeFormat('en-US', { timeZone, hourCycle: 'h23', ...how });
  return (moment) => {
    const parts = new Map(format.formatToParts(moment).map(({ type, value }) => [type, Number(value)]));
    const part = (name: Intl.DateTimeFormatPartTypes): number => parts.get(name) ?? 0;
    const wall = Date.UTC(part('year'), part('month') - 1, part('day'), part('hour'), part('minute'));
    return wall - Math.floor(moment / minuteMs) * minuteMs;
  };
}
