import type { Static } from 'typebox';
import { dateTime, integer, listOf, nullable, object, record, string } from './schema.ts';

const summary = {
  finished: integer,
  passed: integer,
  duration_ms: nullable(integer),
  queue_ms: nullable(integer),
  time_to_green_ms: nullable(integer),
};

export const statisticsRecord = record('Statistics', {
  default_branch: string,
  since: dateTime,
  ...summary,
  days: listOf(object({ day: string, ...summary }), { description: 'Days in UTC, the oldest first' }),
  suites: listOf(
    object({
      suite_name: string,
      builds: integer,
      passed: integer,
      machine_tries: integer,
      median_ms: nullable(integer),
      slow_ms: nullable(integer),
    }),
    {
      description:
        '`slow_ms`: 95 of 100 builds that passed took at most this long; `machine_tries`: builds that were tried again by themselves because of the machine',
    },
  ),
});
export type Statistics = Static<typeof statisticsRecord>;
