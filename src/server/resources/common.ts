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
 * In the form of the Standard Webhooks libraries. It suits the signing of every forge, so a hook can change its provider
 * and keep its secret.
 */
export function randomSecret(): string {
  return `whsec_${randomBytes(32).toString('base64')}`;
}

/** For `like … escape '!'`: the text anywhere, in lower case. No character in it is special. */
export function likePattern(text: string): string {
  return `%${text.toLowerCase().replaceAll(/[!%_]/g, '!$&')}%`;
}

/** Lists show only the subject: whole messages would be megabytes. */
export function startOfMessage(column: string): RawBuilder<string> {
  return sql<string>`substr(${sql.ref(column)}, 1, 1000)`;
}

export function orNotFound<T>(found: T | undefined, field?: string): T {
  if (found === undefined) throw new ApiError('not_found', field);
  return found;
}
