import { recordAudit } from '../auth/audit.ts';
import {
  allRunners,
  drainRunner,
  insertRunner,
  revokeRunner,
  rotateRunner,
  type RegisteredRunner,
} from '../auth/runners.ts';
import { findUser } from '../auth/users.ts';
import type { Queries } from '../db/open.ts';
import { timestamp } from '../lib/timestamps.ts';
import { loseUploadsOf } from '../lifecycle/uploads.ts';
import { lapse } from '../queue/queue.ts';
import { print, readEmail } from './admin.ts';
import type { Command } from './commands.ts';
import { onTheMachine } from './machine.ts';

/**
 * Runner commands for operators. A runner that is revoked or gets another token loses its claims in the same
 * transaction: the server learns of it within a second, and other runners repeat the work.
 */
export const runnerAdmin: Command[] = [
  {
    usage: 'admin runner create NAME [--account EMAIL...]',
    about: 'Let a runner on another machine work for this server, or for some accounts alone; print its token, once',
    run: ({ config, values: [name = ''], lists: { account: emails = [] } }) =>
      print(config, async ({ db, ids }) => {
        if (!/^[\w.-]{1,64}$/.test(name)) throw new Error('a runner is named with letters, digits, _, . and -');
        const accounts = await Promise.all(emails.map((email) => accountOf(db.read, email)));
        return db.transaction(async (trx) => {
          const runner = await insertRunner(trx, ids, name, accounts);
          await recordAudit(trx, ids, onTheMachine(), {
            action: 'runner.created',
            subject: { id: null, name },
            ...(emails.length > 0 ? { details: { accounts: emails.map(readEmail) } } : {}),
          });
          return runner;
        });
      }),
  },
  {
    usage: 'admin runner list',
    about: 'Print every runner that was created, and for which accounts it works; no account means all',
    run: ({ config }) => print(config, async ({ db }) => (await allRunners(db.read)).map(view)),
  },
  {
    usage: 'admin runner revoke NAME',
    about: 'Take a runner back: its token stops working at once, and what it was doing is done again by others',
    run: ({ config, values: [name = ''] }) =>
      print(config, async ({ db, ids }) => {
        await db.transaction(async (trx) => {
          const holder = (await revokeRunner(trx, name)) ?? unknown(name);
          await lapse(db, trx, holder);
          await loseUploadsOf(db, trx, holder);
          await recordAudit(trx, ids, onTheMachine(), { action: 'runner.revoked', subject: { id: null, name } });
        });
        return { name, revoked: true };
      }),
  },
  {
    usage: 'admin runner drain NAME [--off]',
    about: 'Give a runner no more work: it ends after what it does; --off takes that back',
    run: ({ config, values: [name = ''], flags }) =>
      print(config, async ({ db, ids }) => {
        const draining = flags.off === undefined;
        await db.transaction(async (trx) => {
          if ((await drainRunner(trx, name, draining)) === undefined) unknown(name);
          const action = draining ? 'runner.drained' : 'runner.undrained';
          await recordAudit(trx, ids, onTheMachine(), { action, subject: { id: null, name } });
        });
        return { name, draining };
      }),
  },
  {
    usage: 'admin runner rotate NAME',
    about: 'Give a runner another token and print it, once; the one before stops working at once',
    run: ({ config, values: [name = ''] }) =>
      print(config, async ({ db, ids }) => {
        const { token } = await db.transaction(async (trx) => {
          const rotated = (await rotateRunner(trx, name)) ?? unknown(name);
          await lapse(db, trx, rotated.holder);
          await recordAudit(trx, ids, onTheMachine(), { action: 'runner.rotated', subject: { id: null, name } });
          return rotated;
        });
        return { name, token };
      }),
  },
];

function unknown(name: string): never {
  throw new Error(`there is no runner ${name}, or it was revoked before`);
}

async function accountOf(db: Queries, text: string): Promise<bigint> {
  const email = readEmail(text);
  const user = await findUser(db, email);
  if (!user) throw new Error(`there is no account ${email}`);
  return user.id;
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
