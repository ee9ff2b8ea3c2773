import { recordAudit, type Action, type Facts } from '../auth/audit.ts';
import {
  billingStates,
  findUser,
  insertUser,
  makeCredentials,
  normalizeEmail,
  promoteInvited,
  updateUser,
} from '../auth/users.ts';
import { insertLink } from '../auth/password-links.ts';
import type { Config } from '../config.ts';
import type { UserRow } from '../db/schema.ts';
import { timestamp } from '../lib/timestamps.ts';
import { addressForPeople } from './addresses.ts';
import type { Command } from './commands.ts';
import { onTheMachine } from './machine.ts';
import { openStore, type Store } from './store.ts';

/** Account commands for operators. Each prints one JSON object, and works while a server runs. */
export const admin: Command[] = [
  {
    usage: 'admin user create EMAIL [--collaborator]',
    about: 'Create an account, or make one of an invitation, and print its password and API key, once',
    run: ({ config, values: [email = ''], flags }) =>
      print(config, async ({ db, ids }) => {
        const { credentials, stored } = await makeCredentials(readEmail(email));
        const kind = flags.collaborator ? 'collaborator' : 'user';
        await db.transaction(async (trx) => {
          const user = { email: credentials.email, kind, secrets: stored } as const;
          const promoted = kind === 'user' ? await promoteInvited(trx, user.email, stored) : undefined;
          const subject = { id: promoted ?? (await insertUser(trx, ids, user)), name: user.email };
          const details = { kind, ...(promoted === undefined ? {} : { was: 'collaborator' }) };
          await recordAudit(trx, ids, onTheMachine(), { action: 'user.created', subject, details });
        });
        return credentials;
      }),
  },
  {
    usage: 'admin user reset EMAIL',
    about: 'Give an account a new password and API key; the old ones stop working',
    run: ({ config, values: [email = ''] }) =>
      print(config, async (store) => {
        const { credentials, stored } = await makeCredentials(readEmail(email));
        await change(store, credentials.email, 'user.credentials_reset', stored);
        return credentials;
      }),
  },
  {
    usage: 'admin user password-link EMAIL',
    about: 'Make a link to set the password of an account; it works once, within a week',
    run: ({ config, values: [email = ''] }) =>
      print(config, async ({ db, ids }) => {
        const page = new URL('/ui/password', addressForPeople(config));
        const user = await findUser(db.read, readEmail(email));
        if (!user) throw new Error(`there is no account ${email}`);
        const { token, expiresAt } = await db.transaction(async (trx) => {
          const subject = { id: user.id, name: user.email };
          await recordAudit(trx, ids, onTheMachine(), { action: 'user.password_link_created', subject });
          return insertLink(trx, ids, user.id);
        });
        page.searchParams.set('token', token);
        return { email: user.email, url: page.href, expires_at: timestamp(expiresAt) };
      }),
  },
  {
    usage: 'admin user suspend EMAIL',
    about: 'Suspend an account: it can neither sign in nor call the API',
    run: ({ config, values: [email = ''] }) =>
      print(config, (store) => change(store, readEmail(email), 'user.suspended', { suspended: 1 })),
  },
  {
    usage: 'admin user resume EMAIL',
    about: 'Lift the suspension of an account',
    run: ({ config, values: [email = ''] }) =>
      print(config, (store) => change(store, readEmail(email), 'user.resumed', { suspended: 0 })),
  },
  {
    usage: 'admin user billing EMAIL STATE',
    about: `Set the billing state of an account: ${billingStates.join(', ')}`,
    run: ({ config, values: [email = '', state = ''] }) =>
      print(config, async (store) => {
        const billing = billingStates.find((one) => one === state);
        if (!billing) throw new Error(`${state} is none of ${billingStates.join(', ')}`);
        return change(store, readEmail(email), 'user.billing_changed', { billing }, { billing });
      }),
  },
  {
    usage: 'admin user operator EMAIL on|off',
    about: 'Make an account an operator, who sees the audit log, the runners and the state of the installation',
    run: ({ config, values: [email = '', state = ''] }) =>
      print(config, async (store) => {
        if (state !== 'on' && state !== 'off') throw new Error(`${state} is neither on nor off`);
        const operator = state === 'on' ? 1 : 0;
        const facts = { operator: operator === 1 };
        return change(store, readEmail(email), 'user.operator_changed', { operator }, facts);
      }),
  },
];

/** Opens the store, prints the result as one line of JSON, and closes the store. */
export async function print(config: Config, work: (store: Store) => Promise<object>): Promise<void> {
  const store = await openStore(config, (error) => console.error(error));
  try {
    console.log(JSON.stringify(await work(store)));
  } finally {
    await store.close();
  }
}

type Change = Parameters<typeof updateUser>[2];

/** Changes an account and records it in the audit log, if anything differs. */
async function change(
  { db, ids }: Store,
  email: string,
  action: Action,
  values: Change,
  details: Facts = {},
): Promise<object> {
  return db.transaction(async (trx) => {
    const user = await findUser(trx, email);
    if (!user) throw new Error(`there is no account ${email}`);
    if (Object.entries(values).some(([name, value]) => user[name as keyof UserRow] !== value)) {
      await updateUser(trx, email, values);
      await recordAudit(trx, ids, onTheMachine(), { action, subject: { id: user.id, name: email }, details });
    }
    return stateOf({ ...user, ...values });
  });
}

function stateOf({ email, kind, suspended, billing, operator }: UserRow): object {
  return { email, kind, suspended: suspended === 1, billing, operator: operator === 1 };
}

export function readEmail(text: string): string {
  const email = normalizeEmail(text);
  if (email === undefined) throw new Error(`${text} is not an e-mail address`);
  return email;
}
