import { Cron } from 'croner';

/**
 * When the clock says that something is to be done: the five fields of cron, by the clocks of a time zone.
 *
 * A night in which clocks are changed has times that do not exist and times that come twice. What is due at a time that
 * does not exist is done when the clocks are changed; what is due at one that comes twice is done the first time. Where
 * the hour is `*`, what is meant is "every hour", and every hour that passes has one.
 */

/** Numbers and names, and nothing of what only some programs understand (`L`, `W`, `#`, `?`, `@daily`). */
const field = /^(?:\*|[0-9]+|[A-Za-z]{3})(?:-(?:[0-9]+|[A-Za-z]{3}))?(?:\/[0-9]+)?$/;
const minuteMs = 60_000;
const dayMs = 24 * 60 * minuteMs;

export interface CronTimes {
  /** The first moment after this one, in milliseconds since 1970; undefined when there is none. */
  after(moment: number): number | undefined;
}

/** Undefined for what is not five fields, or no fields of cron. */
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

/** A name of the IANA's list. Node would take an offset such as `+02:00` for one too. */
export function isTimeZone(name: string): boolean {
  if (!/^[A-Za-z]/.test(name)) return false;
  try {
    return new Intl.DateTimeFormat('en-US', { timeZone: name }).resolvedOptions().timeZone !== '';
  } catch {
    return false;
  }
}

/** Goes through the times that the clocks on the wall show, as if they were in UTC, and looks when each of them is. */
function byWallClock(next: (wall: number) => number | undefined, timeZone: string): CronTimes['after'] {
  const offsetAt = offsets(timeZone);
  return (moment) => {
    let wall = next(moment + offsetAt(moment));
    while (wall !== undefined) {
      const found = momentOf(wall, offsetAt);
      if (found > moment) return found;
      wall = next(wall); // it comes a second time, and its first time is over
    }
    return undefined;
  };
}

/** When clocks show this: the first time where that is twice, and the moment of the change where they never do. */
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

/** How far the clocks of a zone are ahead of UTC at a moment, in milliseconds. */
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
