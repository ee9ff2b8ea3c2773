import { ApiError } from '../errors.ts';
import { isUniqueViolation, type Queries, type Transaction } from '../db/open.ts';
import type { Incoming } from '../http/route.ts';
import type { IdSource } from '../lib/ids.ts';
import { hashSecret, randomSecret } from '../lib/passwords.ts';

/** Gives a runner elsewhere a token, shown once. */
export async function insertRunner(
  trx: Transaction,
  ids: IdSource,
  name: string,
): Promise<{ name: string; token: string }> {
  const token = randomSecret('hrr');
  const row = { id: ids.next(), name, token_hash: hashSecret(token), created_at: BigInt(Date.now()) };
  try {
    await trx.insertInto('runners').values(row).execute();
  } catch (error) {
    if (isUniqueViolation(error)) throw new ApiError('already_exists', 'name');
    throw error;
  }
  return { name, token };
}

/** Which runner knocks. */
export async function authenticateRunner(db: Queries, headers: Incoming['headers']): Promise<string> {
  const [, token] = /^Bearer (\S+)$/i.exec(String(headers.authorization)) ?? [];
  if (token === undefined) throw new ApiError('unauthorized');
  const runners = db.selectFrom('runners').select('name').where('token_hash', '=', hashSecret(token));
  const runner = await runners.executeTakeFirst();
  if (!runner) throw new ApiError('unauthorized');
  return `runner ${runner.name}`;
}
