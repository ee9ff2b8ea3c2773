import { billingStates, findUser, insertUser, makeCredentials, normalizeEmail, updateUser } from '../auth/users.ts';
import { insertLink } from '../auth/password-links.ts';
import { isSocketPath, type Config } from '../config.ts';
import type { UserRow } from '../db/schema.ts';
import { timestamp } from '../lib/timestamps.ts';
import type { Command } from './commands.ts';
import { openStore, type Store } from './store.ts';

/** What an operator does to accounts. Each prints one JSON object, and works beside a running server. */
export const admin: Command[] = [
  {
    usage: 'admin user create EMAIL [--collaborator]',
    about: 'Create an account and print its password and API key, once',
    run: ({ config, values: [email = ''], flags }) =>
      print(config, async ({ db, ids }) => {
        const { credentials, stored } = await makeCredentials(readEmail(email));
        const kind = flags.collaborator ? 'collaborator' : 'user';
        await db.transaction((trx) => insertUser(trx, ids, { email: credentials.email, kind, secrets: stored }));
        return credentials;
      }),
  },
  {
    usage: 'admin user reset EMAIL',
    about: 'Give an account a new password and API key; the old ones stop working',
    run: ({ config, values: [email = ''] }) =>
      print(config, async (store) => {
        const { credentials, stored } = await makeCredentials(readEmail(email));
        await change(store, credentials.email, stored);
        return credentials;
      }),
  },
  {
    usage: 'admin user password-link EMAIL',
    about: 'Make a link with which a person sets their password, once, within a week',
    run: ({ config, values: [email = ''] }) =>
      print(config, async ({ db, ids }) => {
        const page = new URL('/ui/password', addressOf(config));
        const user = await findUser(db.read, readEmail(email));
        if (!user) throw new Error(`there is no account ${email}`);
        const { token, expiresAt } = await db.transaction((trx) => insertLink(trx, ids, user.id));
        page.searchParams.set('token', token);
        return { email: user.email, url: page.href, expires_at: timestamp(expiresAt) };
      }),
  },
  {
    usage: 'admin user suspend EMAIL',
    about: 'Refuse an account everything',
    run: ({ config, values: [email = ''] }) =>
      print(config, (store) => change(store, readEmail(email), { suspended: 1 })),
  },
  {
    usage: 'admin user resume EMAIL',
    about: 'Let a suspended account in again',
    run: ({ config, values: [email = ''] }) =>
      print(config, (store) => change(store, readEmail(email), { suspended: 0 })),
  },
  {
    usage: 'admin user billing EMAIL STATE',
    about: `Say how an account stands with its bills: ${billingStates.join(', ')}`,
    run: ({ config, values: [email = '', state = ''] }) =>
      print(config, async (store) => {
        const billing = billingStates.find((one) => one === state);
        if (!billing) throw new Error(`${state} is none of ${billingStates.join(', ')}`);
        return change(store, readEmail(email), { billing });
      }),
  },
];

/** Opens the store, prints what was done as one line of JSON, and closes it. */
export async function print(config: Config, work: (store: Store) => Promise<object>): Promise<void> {
  const store = await openStore(config, (error) => console.error(error));
  try {
    console.log(JSON.stringify(await work(store)));
  } finally {
    await store.close();
  }
}

/** Where people find the server. */
function addressOf({ base_url: baseUrl, tls, host, port }: Config): string {
  if (baseUrl !== undefined) return baseUrl;
  if (isSocketPath(host)) throw new Error('set base_url, so that the link can say where people find the server');
  return `${tls === 'off' ? 'http' : 'https'}://${host.includes(':') ? `[${host}]` : host}:${port}`;
}

async function change(store: Store, email: string, values: Parameters<typeof updateUser>[2]): Promise<object> {
  const changed = await store.db.transaction((trx) => updateUser(trx, email, values));
  const user = changed ? await findUser(store.db.read, email) : undefined;
  if (!user) throw new Error(`there is no account ${email}`);
  return stateOf(user);
}

function stateOf({ email, kind, suspended, billing }: UserRow): object {
  return { email, kind, suspended: suspended === 1, billing };
}

export function readEmail(text: string): string {
  const email = normalizeEmail(text);
  if (email === undefined) throw new Error(`${text} is not an e-mail address`);
  return email;
}
