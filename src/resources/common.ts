import { sql, type RawBuilder } from 'kysely';
import type { Call } from '../api/call.ts';
import type { Transaction } from '../db/open.ts';
import { ApiError } from '../errors.ts';
import type { WriteContext } from '../lifecycle/write-context.ts';

export { destroyedAnswer } from '../records/schema.ts';
export { twin } from '../views/twin.ts';

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

/**
 * The columns whose fields were sent. A field that was not sent is not written: it would undo another user's change.
 */
export function sentColumns<Columns extends object>(
  columns: Columns,
): { [Name in keyof Columns]?: Exclude<Columns[Name], undefined> } {
  const sent = Object.entries(columns).filter(([, value]) => value !== undefined);
  return Object.fromEntries(sent) as { [Name in keyof Columns]?: Exclude<Columns[Name], undefined> };
}

/** A pattern for `like … escape '!'` that finds the text anywhere, in lower case. No character in it is special. */
export function likePattern(text: string): string {
  return `%${text.toLowerCase().replaceAll(/[!%_]/g, '!$&')}%`;
}

/** What a list needs of a commit's message for its subject: a list of whole ones would be megabytes. */
export function startOfMessage(column: string): RawBuilder<string> {
  return sql<string>`substr(${sql.ref(column)}, 1, 1000)`;
}

/** Returns the record, or throws the API's error where there is none. */
export function orNotFound<T>(found: T | undefined, field?: string): T {
  if (found === undefined) throw new ApiError('not_found', field);
  return found;
}
