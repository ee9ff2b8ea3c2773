import { sql, type RawBuilder } from 'kysely';
import type { Call } from '../api/call.ts';
import type { Queries, Transaction } from '../db/open.ts';
import { ApiError } from '../../shared/errors.ts';
import type { WriteContext } from '../lifecycle/write-context.ts';

export { destroyedAnswer } from '../../shared/records/schema.ts';
export { withIdString } from '../views/id-string.ts';

export const destroyed = { destroyed: true };

/** The context for changes of state, from a call that writes. */
export function writeContextOf({
  database,
  db,
  ids,
  observers,
}: Pick<Call, 'database' | 'ids' | 'observers'> & { db: Transaction }): WriteContext {
  return { db: database, trx: db, ids, observers };
}

/** What a `load` reads, to find the records that the path names in a project, or in the caller's account. */
export interface InProject<Param extends string> {
  db: Queries;
  project: { id: bigint };
  params: Record<Param, bigint>;
}
export interface InAccount<Param extends string> {
  db: Queries;
  caller: { id: bigint };
  params: Record<Param, bigint>;
}

/** A pattern for `like … escape '!'` that finds the text anywhere, in lower case. No character in it is special. */
export function likePattern(text: string): string {
  return `%${text.toLowerCase().replaceAll(/[!%_]/g, '!$&')}%`;
}

/** The part of a commit's message from which a list shows the subject: whole messages would be megabytes. */
export function startOfMessage(column: string): RawBuilder<string> {
  return sql<string>`substr(${sql.ref(column)}, 1, 1000)`;
}

/** Returns the record, or throws the API's error where there is none. */
export function orNotFound<T>(found: T | undefined, field?: string): T {
  if (found === undefined) throw new ApiError('not_found', field);
  return found;
}
