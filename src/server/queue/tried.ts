import { sql, type RawBuilder, type SqlBool } from 'kysely';
import type { JobRow } from '../db/schema.ts';

/*
 * Runners that have tried a job in vain leave it to the others. If no other connected runner can take it, they take it
 * again.
 */

/** Adds the job's holder to the runners that tried it. */
export function addTried({ tried_by: before, holder }: Pick<JobRow, 'tried_by' | 'holder'>): string | null {
  const name = (holder ?? '').replace(lost, '');
  if (name === '' || before?.includes(`\n${name}\n`)) return before;
  return `${before ?? '\n'}${name}\n`;
}

export function hasTried({ tried_by: before }: Pick<JobRow, 'tried_by'>, holder: string | null): boolean {
  return holder !== null && (before?.includes(`\n${holder}\n`) ?? false);
}

/** Prefix of the holder of a claim whose runner is gone (leases.ts). */
export const lost = 'lost: ';

const contains = (name: RawBuilder<string>): RawBuilder<SqlBool> =>
  sql`replace(waiting.tried_by, ${sql.lit('\n')} || ${name} || ${sql.lit('\n')}, '') <> waiting.tried_by`;

/** `able` are the connected runners that can take the job `waiting`, with their `holder`. */
export function isLeftTo(holder: string, able: RawBuilder<unknown>): RawBuilder<SqlBool> {
  return sql<SqlBool>`(waiting.tried_by is null or not (${contains(sql`cast(${holder} as text)`)}) or not exists (
    select 1 from (${able}) as able where not (${contains(sql.ref('able.holder'))})
  ))`;
}
