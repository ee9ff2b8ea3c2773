import { randomBytes } from 'node:crypto';
import { sql, type RawBuilder } from 'kysely';
import type { Call } from '../api/call.ts';
import type { Queries, Transaction } from '../db/open.ts';
import { ApiError } from '../../shared/errors.ts';
import type { WriteContext } from '../lifecycle/write-context.ts';

export { destroyedAnswer } from '../../shared/records/schema.ts';
export { withIdString } from '../views/id-string.ts';

export const destroyed = { destroyed: true };

export function writeContextOf({
  database,
  db,
  ids,
  observers,
}: Pick<Call, 'database' | 'ids' | 'observers'> & { db: Transaction }): WriteContext {
  return { db: database, trx: db, ids, observers };
}

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

/**
 * A secret in the form of the Standard Webhooks libraries. Every forge can sign with it, so a hook can change its
 * provider and keep its secret.
 */
export function randomSecret(): string {
  return `whsec_${randomBytes(32).toString('base64')}`;
}

/** A pattern for `like … escape '!'` that finds the text anywhere, in lower case. Special characters are escaped. */
export function likePattern(text: string): string {
  return `%${text.toLowerCase().replaceAll(/[!%_]/g, '!$&')}%`;
}

/** Lists show only the subject, because whole messages could be megabytes. */
export function startOfMessage(column: string): RawBuilder<string> {
  return sql<string>`substr(${sql.ref(column)}, 1, 1000)`;
}

export function orNotFound<T>(found: T | undefined, field?: string): T {
  if (found === undefined) throw new ApiError('not_found', field);
  return found;
}
