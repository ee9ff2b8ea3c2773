import type { SqlBool } from 'kysely';
import { ApiError } from '../errors.ts';
import { isUniqueViolation, type Database, type Queries, type Transaction } from '../db/open.ts';
import { prepared } from '../db/prepared.ts';
import type { RunnerRow } from '../db/schema.ts';
import type { Incoming } from '../http/route.ts';
import type { IdSource } from '../lib/ids.ts';
import { hashSecret, randomSecret } from '../lib/passwords.ts';

/**
 * Runners elsewhere and the tokens they come with. A token is good until it is replaced or the runner is revoked, and
 * then for nothing: whoever answers a runner looks it up for every call, again while a call is held, and once more in
 * the transaction that gives work away.
 */
export interface Runner {
  /** What its claims are held under. One that is created again under the same name is another holder. */
  holder: string;
  /** Of the token that it came with; none for the runner on this machine, which comes through the data folder. */
  tokenHash?: string;
  /** Its identifier, where it works for some accounts alone. */
  boundAs?: bigint;
}

/** What an operator is told about a runner; never its token, nor a hash of it. */
export interface RegisteredRunner extends Pick<RunnerRow, 'name' | 'created_at' | 'last_seen_at' | 'revoked_at'> {
  /** E-mail addresses; none means all. */
  accounts: string[];
}

export interface RunnerToken {
  name: string;
  token: string;
}

/** Gives a runner elsewhere a token, shown once. With accounts it gets the work of those alone. */
export async function insertRunner(
  trx: Transaction,
  ids: IdSource,
  name: string,
  accounts: readonly bigint[] = [],
): Promise<RunnerToken> {
  const token = randomSecret('hrr');
  const id = ids.next();
  const row = { id, name, token_hash: hashSecret(token), created_at: BigInt(Date.now()) };
  await trx.deleteFrom('runners').where('name', '=', name).where('revoked_at', 'is not', null).execute();
  try {
    await trx.insertInto('runners').values(row).execute();
  } catch (error) {
    if (isUniqueViolation(error)) throw new ApiError('already_exists', 'name');
    throw error;
  }
  for (const account of new Set(accounts)) {
    await trx.insertInto('runner_accounts').values({ id: ids.next(), runner_id: id, account_id: account }).execute();
  }
  return { name, token };
}

/** Answers whom it was the holder of claims as; undefined when there is no such runner. */
export async function revokeRunner(trx: Transaction, name: string): Promise<string | undefined> {
  return change(trx, name, { revoked_at: BigInt(Date.now()) });
}

/** Gives a runner another token: the one before opens nothing any more. */
export async function rotateRunner(
  trx: Transaction,
  name: string,
): Promise<{ holder: string; token: string } | undefined> {
  const token = randomSecret('hrr');
  const holder = await change(trx, name, { token_hash: hashSecret(token) });
  return holder === undefined ? undefined : { holder, token };
}

/** Waits for those who are giving work to this runner at the moment: see `holdRunner`. */
async function change(trx: Transaction, name: string, values: Partial<RunnerRow>): Promise<string | undefined> {
  const changed = trx.updateTable('runners').set(values).where('name', '=', name).where('revoked_at', 'is', null);
  const runner = await changed.returning(['id', 'name']).executeTakeFirst();
  return runner && holderOf(runner);
}

export async function allRunners(db: Queries): Promise<RegisteredRunner[]> {
  const runners = await db
    .selectFrom('runners')
    .select(['id', 'name', 'created_at', 'last_seen_at', 'revoked_at'])
    .orderBy('id')
    .execute();
  const bound = await db
    .selectFrom('runner_accounts')
    .innerJoin('users', 'users.id', 'runner_accounts.account_id')
    .select(['runner_accounts.runner_id', 'users.email'])
    .orderBy('runner_accounts.id')
    .execute();
  const accounts = Map.groupBy(bound, ({ runner_id: runner }) => runner);
  return runners.map(({ id, ...runner }) => ({
    ...runner,
    accounts: (accounts.get(id) ?? []).map(({ email }) => email),
  }));
}

const findByHash = prepared<{ hash: string }, Pick<RunnerRow, 'id' | 'name' | 'last_seen_at'> & { is_bound: SqlBool }>(
  (db, value) =>
    db
      .selectFrom('runners')
      .select(['id', 'name', 'last_seen_at'])
      .select((of) =>
        of
          .exists(
            of.selectFrom('runner_accounts').select('id').whereRef('runner_accounts.runner_id', '=', 'runners.id'),
          )
          .as('is_bound'),
      )
      .where('token_hash', '=', value('hash'))
      .where('revoked_at', 'is', null),
);

/** Which runner knocks. */
export async function authenticateRunner(db: Database, headers: Incoming['headers']): Promise<Runner> {
  const [, token] = /^Bearer +(hrr_[\w-]{43})$/i.exec(String(headers.authorization)) ?? [];
  if (token === undefined) throw new ApiError('unauthorized');
  const tokenHash = hashSecret(token);
  const [found] = await findByHash(db.read, { hash: tokenHash });
  if (!found) throw new ApiError('unauthorized');
  await noteVisit(db, found);
  return { holder: holderOf(found), tokenHash, ...(found.is_bound ? { boundAs: found.id } : {}) };
}

/** Refuses a runner whose token has stopped working since it came. */
export async function checkRunner(db: Queries, { tokenHash }: Runner): Promise<void> {
  if (tokenHash === undefined) return;
  const [found] = await findByHash(db, { hash: tokenHash });
  if (!found) throw new ApiError('unauthorized');
}

/** The same, and until the transaction is over the token cannot stop working. */
export async function holdRunner(db: Database, trx: Transaction, { tokenHash }: Runner): Promise<void> {
  if (tokenHash === undefined) return;
  const runners = trx.selectFrom('runners').select('id').where('token_hash', '=', tokenHash);
  const found = await db.shareLocked(runners.where('revoked_at', 'is', null), 'runners').executeTakeFirst();
  if (!found) throw new ApiError('unauthorized');
}

/** A runner comes every few seconds; to write each time would be too dear. */
const visitResolution = 30_000n;

async function noteVisit(db: Database, { id, last_seen_at: last }: Pick<RunnerRow, 'id' | 'last_seen_at'>) {
  const now = BigInt(Date.now());
  if (last !== null && last > now - visitResolution && last <= now) return; // later than now: the clock was set back
  await db.transaction((trx) => trx.updateTable('runners').set({ last_seen_at: now }).where('id', '=', id).execute());
}

function holderOf({ id, name }: Pick<RunnerRow, 'id' | 'name'>): string {
  return `runner ${name} ${id}`;
}
