import { ApiError } from '../../shared/errors.ts';
import { isUniqueViolation, type Database, type Queries, type Transaction } from '../db/open.ts';
import type { RunnerRow } from '../db/schema.ts';
import type { Incoming } from '../http/route.ts';
import type { IdSource } from '../../shared/lib/ids.ts';
import { hashSecret, randomSecret } from '../../shared/lib/passwords.ts';
import type { SlotKind } from '../../shared/domain/runner-slots.ts';

/**
 * A token is valid until it is replaced or the runner is revoked. To make that immediate, a server checks it on
 * connecting, every second after that, and in the transaction that assigns work. Revoking a token also revokes its
 * claims.
 */
export interface Runner {
  /** A runner recreated under the same name is another holder. */
  holder: string;
  /** Undefined for the runner on this machine. */
  id?: bigint;
  /** Undefined for the runner on this machine, which connects through the data folder. */
  tokenHash?: string;
  /** The runner's id, if it works only for certain accounts. */
  boundAs?: bigint;
  /** The accounts of an account-scoped runner. They also share its limits. */
  accounts?: readonly bigint[];
  /** The runner's tags, as one text. Tags add jobs that need them, of the same accounts only. */
  tags?: string;
  /** The location of files of builds (`locationOf`, lifecycle/kept-builds.ts), if it retains any. */
  location?: string | undefined;
  /** Whether it wants only jobs that need the files at its location. */
  isLeaving?: boolean | undefined;
  /** Both kinds of slots if not set. */
  slot?: SlotKind | undefined;
}

export interface Standing {
  isDraining: boolean;
}

/** Without the token and its hash. */
export interface RegisteredRunner extends Pick<RunnerRow, 'id' | 'name' | 'created_at' | 'revoked_at' | 'draining'> {
  /** To a few seconds. null until its first call. */
  last_seen_at: bigint | null;
  accounts: string[];
}

export interface RunnerToken {
  name: string;
  token: string;
}

/** The token is shown once. With accounts the runner gets only their work. */
export async function insertRunner(
  trx: Transaction,
  ids: IdSource,
  name: string,
  accounts: readonly bigint[] = [],
): Promise<RunnerToken> {
  const token = randomSecret('hrr');
  const id = ids.next();
  const row = { id, name, token_hash: hashSecret(token), created_at: BigInt(Date.now()), draining: 0 };
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

/** Returns the holder of the runner's claims. */
export async function revokeRunner(trx: Transaction, name: string): Promise<string | undefined> {
  return change(trx, name, { revoked_at: BigInt(Date.now()) });
}

/** The old token is invalid at once. */
export async function rotateRunner(
  trx: Transaction,
  name: string,
): Promise<{ holder: string; token: string } | undefined> {
  const token = randomSecret('hrr');
  const holder = await change(trx, name, { token_hash: hashSecret(token) });
  return holder === undefined ? undefined : { holder, token };
}

export async function drainRunner(trx: Transaction, name: string, isDraining: boolean): Promise<string | undefined> {
  return change(trx, name, { draining: isDraining ? 1 : 0 });
}

/** Waits for transactions that assign work to this runner: see `holdRunner`. */
async function change(trx: Transaction, name: string, values: Partial<RunnerRow>): Promise<string | undefined> {
  const changed = trx.updateTable('runners').set(values).where('name', '=', name).where('revoked_at', 'is', null);
  const runner = await changed.returning(['id', 'name']).executeTakeFirst();
  return runner && holderOf(runner);
}

export async function allRunners(db: Queries): Promise<RegisteredRunner[]> {
  const runners = await db
    .selectFrom('runners')
    .leftJoin('runner_heartbeats', 'runner_heartbeats.runner_id', 'runners.id')
    .select(['runners.id', 'runners.name', 'runners.created_at', 'runners.revoked_at', 'runners.draining'])
    .select('runner_heartbeats.seen_at as last_seen_at')
    .orderBy('runners.id')
    .execute();
  const bound = await db
    .selectFrom('runner_accounts')
    .innerJoin('users', 'users.id', 'runner_accounts.account_id')
    .select(['runner_accounts.runner_id', 'users.email'])
    .orderBy('runner_accounts.id')
    .execute();
  const accounts = Map.groupBy(bound, ({ runner_id: runner }) => runner);
  return runners.map((runner) => ({
    ...runner,
    accounts: (accounts.get(runner.id) ?? []).map(({ email }) => email),
  }));
}

const findByHash = (db: Queries, hash: string) =>
  db
    .selectFrom('runners')
    .select(['id', 'name', 'draining'])
    .select((of) =>
      of
        .exists(of.selectFrom('runner_accounts').select('id').whereRef('runner_accounts.runner_id', '=', 'runners.id'))
        .as('is_bound'),
    )
    .where('token_hash', '=', hash)
    .where('revoked_at', 'is', null)
    .executeTakeFirst();

export async function authenticateRunner(db: Database, headers: Incoming['headers']): Promise<Runner> {
  const [, token] = /^Bearer +(hrr_[\w-]{43})$/i.exec(String(headers.authorization)) ?? [];
  if (token === undefined) throw new ApiError('unauthorized');
  const tokenHash = hashSecret(token);
  const found = await findByHash(db.read, tokenHash);
  if (!found) throw new ApiError('unauthorized');
  const runner = { holder: holderOf(found), id: found.id, tokenHash };
  if (!found.is_bound) return runner;
  const bound = db.read.selectFrom('runner_accounts').select('account_id').where('runner_id', '=', found.id);
  const accounts = (await bound.execute()).map(({ account_id: account }) => account);
  return { ...runner, boundAs: found.id, accounts };
}

/** Refuses a runner whose token became invalid during the call. */
export async function checkRunner(db: Queries, { tokenHash }: Runner): Promise<Standing> {
  if (tokenHash === undefined) return usual;
  return standingOf(await findByHash(db, tokenHash));
}

/** By the hash of the token. A token that is missing here is invalid. */
export async function findStandings(db: Queries): Promise<ReadonlyMap<string, Standing>> {
  const runners = db.selectFrom('runners').select(['token_hash', 'draining']).where('revoked_at', 'is', null);
  const rows = await runners.execute();
  return new Map(rows.map((row) => [row.token_hash, standingOf(row)]));
}

/** Refuses like `checkRunner`, and locks token and standing until the transaction ends. */
export async function holdRunner(db: Database, trx: Transaction, { tokenHash }: Runner): Promise<Standing> {
  if (tokenHash === undefined) return usual;
  const runners = trx.selectFrom('runners').select(['id', 'draining']).where('token_hash', '=', tokenHash);
  return standingOf(await db.shareLocked(runners.where('revoked_at', 'is', null), 'runners').executeTakeFirst());
}

/** The runner on a server's own machine is drained with its server. */
const usual: Standing = { isDraining: false };

function standingOf(found: Pick<RunnerRow, 'draining'> | undefined): Standing {
  if (!found) throw new ApiError('unauthorized');
  return { isDraining: found.draining === 1 };
}

export function holderOf({ id, name }: Pick<RunnerRow, 'id' | 'name'>): string {
  return `runner ${name} ${id}`;
}
