import { recordAudit, type Action } from '../../server/auth/audit.ts';
import {
  allRunners,
  drainRunner,
  insertRunner,
  revokeRunner,
  rotateRunner,
  type RegisteredRunner,
} from '../../server/auth/runners.ts';
import type { Config } from '../../shared/config.ts';
import { organisationNamed, type Organisation } from '../../server/auth/organisations.ts';
import type { Database, Queries, Transaction } from '../../server/db/open.ts';
import { timestamp } from '../../shared/lib/timestamps.ts';
import { loseUploadsOf } from '../../server/lifecycle/uploads.ts';
import { lapse } from '../../server/queue/leases.ts';
import { accountOf, print } from './admin.ts';
import type { Call } from './call.ts';
import { onTheMachine } from './machine.ts';

/** A revoked or replaced token loses its claims in the same transaction. Other runners repeat the work. */
export async function createRunner(
  { config, options }: Call<{ account?: string[]; organisation?: string[] }>,
  name: string,
): Promise<void> {
  if (!/^[\w.-]{1,64}$/.test(name)) throw new Error('a runner is named with letters, digits, _, . and -');
  await print(config, async ({ db, ids }) => {
    const owners = await Promise.all((options.account ?? []).map((email) => accountOf(db.read, email)));
    const teams = await Promise.all((options.organisation ?? []).map((team) => organisationCalled(db.read, team)));
    const accounts = [...owners, ...teams].map(({ id }) => id);
    const names = [...owners.map(({ email }) => email), ...teams.map((team) => team.name)];
    return db.transaction(async (trx) => {
      const runner = await insertRunner(trx, ids, name, accounts);
      await recordAudit(trx, ids, onTheMachine(), {
        action: 'runner.created',
        subject: { id: null, name },
        ...(names.length > 0 ? { details: { accounts: names } } : {}),
      });
      return runner;
    });
  });
}

async function organisationCalled(db: Queries, name: string): Promise<Organisation> {
  const found = await organisationNamed(db, name);
  if (!found) throw new Error(`there is no organisation ${name}`);
  return found;
}

export async function listRunners({ config }: Call): Promise<void> {
  await print(config, async ({ db }) => (await allRunners(db.read)).map(view));
}

export async function revoke({ config }: Call, name: string): Promise<void> {
  await change(config, 'runner.revoked', name, async (db, trx) => {
    const holder = (await revokeRunner(trx, name)) ?? unknown(name);
    await lapse(db, trx, holder);
    await loseUploadsOf(db, trx, holder);
    return { name, revoked: true };
  });
}

export async function drain({ config, options }: Call<{ off?: true }>, name: string): Promise<void> {
  const draining = !options.off;
  await change(config, draining ? 'runner.drained' : 'runner.undrained', name, async (_, trx) => {
    if ((await drainRunner(trx, name, draining)) === undefined) unknown(name);
    return { name, draining };
  });
}

export async function rotate({ config }: Call, name: string): Promise<void> {
  await change(config, 'runner.rotated', name, async (db, trx) => {
    const { token, holder } = (await rotateRunner(trx, name)) ?? unknown(name);
    await lapse(db, trx, holder);
    return { name, token };
  });
}

async function change(
  config: Config,
  action: Action,
  name: string,
  work: (db: Database, trx: Transaction) => Promise<object>,
): Promise<void> {
  await print(config, ({ db, ids }) =>
    db.transaction(async (trx) => {
      const result = await work(db, trx);
      await recordAudit(trx, ids, onTheMachine(), { action, subject: { id: null, name } });
      return result;
    }),
  );
}

function unknown(name: string): never {
  throw new Error(`there is no runner ${name}, or it was revoked before`);
}

function view({ name, accounts, draining, ...moments }: RegisteredRunner): object {
  const { created_at: created, last_seen_at: seen, revoked_at: revoked } = moments;
  return {
    name,
    created_at: timestamp(created),
    last_seen_at: seen === null ? null : timestamp(seen),
    accounts,
    draining: draining === 1,
    revoked: revoked !== null,
    revoked_at: revoked === null ? null : timestamp(revoked),
  };
}
