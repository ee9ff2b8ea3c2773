import type { Static } from 'typebox';
import { dateTime, integer, listOf, nullable, number, object, ownId, record, string, strings } from './schema.ts';

export const suiteFiguresRecord = record('SuiteFigures', {
  variant: string,
  variants: strings,
  builds: listOf(
    object({
      ...ownId,
      build_state: string,
      created_at: dateTime,
      duration_ms: nullable(integer),
      queue_ms: nullable(integer),
      tests: integer,
      cpu_seconds: nullable(number),
      memory_peak: nullable(integer),
      disk_written: nullable(integer),
      network_received: nullable(integer),
      network_sent: nullable(integer),
    }),
    { description: 'The last 200 builds that ran, the oldest first' },
  ),
});
export type SuiteFigures = Static<typeof suiteFiguresRecord>;
