import { hash } from 'node:crypto';
import { ApiError } from '../../shared/errors.ts';
import type { Database, Queries, Transaction } from '../db/open.ts';
import { sealedLocation } from '../db/schema.ts';
import { sealIn } from '../db/sealing.ts';
import type { Answer, Incoming } from '../http/route.ts';
import { longest } from '../../shared/domain/bounds.ts';
import { exactJson } from '../../shared/lib/exact-json.ts';
import type { CallDeps } from './call.ts';

/**
 * The first request with a key stores key and response in the transaction that creates the record. A repetition gets
 * that response and creates nothing, even if both run at once (the second waits at the unique key). A failed request
 * stores nothing. Responses can contain secrets, so they are sealed.
 */
const lifetime = 24 * 60 * 60 * 1000;

const answerColumn = { table: 'idempotency_keys', column: 'answer' } as const;

export function readIdempotencyKey(headers: Incoming['headers']): string | undefined {
  const key = headers['idempotency-key'];
  if (key === undefined) return undefined;
  if (typeof key !== 'string' || key.length > longest.idempotencyKey || !/^[\x21-\x7e]+$/.test(key))
    throw new ApiError('invalid_format', 'idempotency_key');
  return key;
}

export async function isKnownKey(db: Queries, userId: bigint, key: string): Promise<boolean> {
  const keys = db.selectFrom('idempotency_keys').select('id').where('user_id', '=', userId).where('key', '=', key);
  const living = keys.where('created_at', '>=', BigInt(Date.now() - lifetime));
  return (await living.executeTakeFirst()) !== undefined;
}

interface Attempt {
  userId: bigint;
  key: string;
  /** The whole request: the same key for another request is an error. */
  asked: unknown;
  status: number;
}

export async function onlyOnce(
  trx: Transaction,
  { ids, vault }: CallDeps,
  { userId, key, asked, status }: Attempt,
  work: () => Promise<Answer>,
): Promise<Answer & { status?: number }> {
  const now = BigInt(Date.now());
  const requestHash = hash('sha256', JSON.stringify(asked), 'base64url');
  await trx
    .deleteFrom('idempotency_keys')
    .where('user_id', '=', userId)
    .where('key', '=', key)
    .where('created_at', '<', now - BigInt(lifetime))
    .execute();

  const id = ids.next();
  const reservation = {
    id,
    user_id: userId,
    key,
    request_hash: requestHash,
    status,
    answer: '',
    created_at: now,
  };
  const { numInsertedOrUpdatedRows: reserved } = await trx
    .insertInto('idempotency_keys')
    .values(reservation)
    .onConflict((conflict) => conflict.columns(['user_id', 'key']).doNothing())
    .executeTakeFirst();

  if (reserved !== 1n) {
    const first = await trx
      .selectFrom('idempotency_keys')
      .selectAll()
      .where('user_id', '=', userId)
      .where('key', '=', key)
      .executeTakeFirstOrThrow();
    if (first.request_hash !== requestHash) throw new ApiError('already_exists', 'idempotency_key');
    return { json: vault.open(first.answer, sealedLocation(answerColumn, first.id)), status: first.status };
  }

  const answer = await work();
  if (!('record' in answer)) throw new Error('a route that creates must answer with a record');
  const json = exactJson({ response: answer.record });
  await trx
    .updateTable('idempotency_keys')
    .set({ answer: await sealIn(trx, vault, json, sealedLocation(answerColumn, id)) })
    .where('id', '=', id)
    .execute();
  return { json };
}

export async function forgetOldKeys(db: Database): Promise<void> {
  const limit = BigInt(Date.now() - lifetime);
  await db.transaction((trx) => trx.deleteFrom('idempotency_keys').where('created_at', '<', limit).execute());
}
