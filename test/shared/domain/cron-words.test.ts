import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { parseCron } from '../../../src/shared/domain/cron.ts';
import { cronWords, valuesOf, weekdaysOf } from '../../../src/shared/domain/cron-words.ts';
import * as fc from '../../support/properties.ts';

const said: Record<string, string> = {
  '30 2 * * 1-5': 'At 02:30, from Monday to Friday',
  '0 3 * * *': 'At 03:00, every day',
  '15 3,4 1 1 *': 'At 03:15 and 04:15, on day 1 of the month, in January',
  '* * * * *': 'Every minute',
  '*/15 * * * *': 'Every 15 minutes',
  '*/25 * * * *': 'At minutes 0, 25 and 50 of every hour',
  '7 * * JUN-AUG *': 'Every hour at minute 7, from June to August',
  '0 9-17 * * FRI-7': 'Every hour from 09:00 to 17:00, from Friday to Sunday',
  '0 */3 * * *': 'At 00:00, 03:00, 06:00 … 21:00, every day',
  '*/5 4 * * 0': 'Every 5 minutes of hour 4, on Sunday',
  // Either of the two days is enough, and `*/1` is a day that is set.
  '0 0 1,15 * 1-5': 'At 00:00, on days 1 and 15 of the month, and also from Monday to Friday',
  '0 0 */1 * 1': 'At 00:00, every day',
  '0 0 * * *,1': 'At 00:00, every day',
};

const part = (least: number, most: number) =>
  fc
    .tuple(
      fc.integer({ min: least, max: most }),
      fc.integer({ min: least, max: most }),
      fc.integer({ min: 1, max: 9 }),
      fc.integer({ min: 0, max: 4 }),
    )
    .map(([a, b, step, kind]) => {
      const range = `${Math.min(a, b)}-${Math.max(a, b)}`;
      return ['*', String(a), range, `*/${step}`, `${range}/${step}`][kind] ?? '*';
    });
const field = (least: number, most: number) =>
  fc.array(part(least, most), { minLength: 1, maxLength: 3 }).map((parts) => parts.join(','));

describe('a schedule in words', () => {
  test('names its times as a person would', () => {
    for (const [cron, words] of Object.entries(said)) {
      assert.ok(parseCron(cron, 'UTC'), cron);
      assert.equal(cronWords(cron), words, cron);
    }
  });

  test('reads every field as the schedule does', () => {
    const day = 86_400_000;
    fc.assert(
      fc.property(field(0, 59), field(0, 23), field(1, 31), field(1, 12), field(0, 7), (...fields) => {
        const times = parseCron(fields.join(' '), 'UTC');
        if (!times) return;
        const [minutes, hours] = [valuesOf(fields[0], 0, 59), valuesOf(fields[1], 0, 23)];
        const [days, months, weekdays] = [
          valuesOf(fields[2], 1, 31),
          valuesOf(fields[3], 1, 12),
          weekdaysOf(fields[4]),
        ];
        const runsOn = (date: Date): boolean => {
          const [inMonth, inWeek] = [days.includes(date.getUTCDate()), weekdays.includes(date.getUTCDay() || 7)];
          const isEither = fields[2] !== '*' && fields[4] !== '*';
          return months.includes(date.getUTCMonth() + 1) && (isEither ? inMonth || inWeek : inMonth && inWeek);
        };
        // croner 11.0.0 passes over the first of March after a leap day, for days that reach the 31st.
        let last = Date.UTC(2029, 0, 1) - 1;
        for (let number = 0; number < 12; number += 1) {
          // The next time by the words: the next day that fits, and the first fitting minute of it.
          let expected: number | undefined;
          for (let at = Math.floor((last + 1) / day) * day; expected === undefined && at < last + 400 * day; at += day)
            if (runsOn(new Date(at)))
              expected = hours
                .flatMap((hour) => minutes.map((minute) => at + (hour * 60 + minute) * 60_000))
                .find((one) => one > last);
          const next: number | undefined = times.after(last);
          if (expected === undefined || expected > Date.UTC(2032, 1, 1)) return;
          assert.equal(next, expected, fields.join(' '));
          last = expected;
        }
      }),
      { numRuns: 100 },
    );
  });
});
