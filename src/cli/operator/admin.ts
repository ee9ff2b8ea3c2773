import { recordAudit, type Action, type Facts } from '../../server/auth/audit.ts';
import {
  billingStates,
  findUser,
  insertUser,
  makeCredentials,
  normalizeEmail,
  promoteInvited,
  updateUser,
} from '../../server/auth/users.ts';
import { mailLink } from '../../server/mail/mailer.ts';
import { dropPasskeysOf } from '../../server/auth/passkeys.ts';
import { insertLink } from '../../server/auth/password-links.ts';
import { dropUserTokensOf } from '../../server/auth/user-tokens.ts';
import { isSocketPath, type Config } from '../../shared/config.ts';
import type { Queries } from '../../server/db/open.ts';
import type { UserRow } from '../../server/db/schema.ts';
import { publicUrl } from '../../shared/domain/public-url.ts';
import { timestamp } from '../../shared/lib/timestamps.ts';
import type { Call } from './call.ts';
import { addressOfServer } from './folder-lock.ts';
import { onTheMachine } from './machine.ts';
import { openStore, type Store } from './store.ts';

/** Each prints one JSON object, and works while a server runs. */
export async function createUser({ config, options }: Call<{ collaborator?: true }>, email: string): Promise<void> {
  await print(config, async ({ db, ids }) => {
    const { credentials, stored } = await makeCredentials(readEmail(email));
    const kind = options.collaborator ? 'collaborator' : 'user';
    await db.transaction(async (trx) => {
      const user = { email: credentials.email, kind, secrets: stored } as const;
      const promoted = kind === 'user' ? await promoteInvited(trx, user.email, stored) : undefined;
      const subject = { id: promoted ?? (await insertUser(trx, ids, user)), name: user.email };
      const details = { kind, ...(promoted === undefined ? {} : { was: 'collaborator' }) };
      await recordAudit(trx, ids, onTheMachine(), { action: 'user.created', subject, details });
    });
    return credentials;
  });
}

export async function resetUser({ config }: Call, email: string): Promise<void> {
  await print(config, async (store) => {
    const { credentials, stored } = await makeCredentials(readEmail(email));
    const { id } = await accountOf(store.db.read, credentials.email);
    await store.db.transaction(async (trx) => {
      await dropPasskeysOf(trx, id);
      await dropUserTokensOf(trx, id);
    });
    await change(store, credentials.email, 'user.credentials_reset', stored);
    return credentials;
  });
}

export async function linkToPassword({ config }: Call, email: string): Promise<void> {
  await print(config, async ({ db, ids, mailer }) => {
    const page = new URL('/ui/password', addressForPeople(config));
    const user = await accountOf(db.read, email);
    const { token, expiresAt } = await db.transaction(async (trx) => {
      const subject = { id: user.id, name: user.email };
      await recordAudit(trx, ids, onTheMachine(), { action: 'user.password_link_created', subject });
      return insertLink(trx, ids, user.id);
    });
    page.searchParams.set('token', token);
    const text = 'Set a new password with this link. It works once, within a week.';
    const subject = 'Your password at Headrace';
    const mailed = await mailLink(mailer, { to: user.email, link: page.href, subject, text });
    return { email: user.email, url: page.href, expires_at: timestamp(expiresAt), mailed };
  });
}

export async function suspendUser({ config }: Call, email: string): Promise<void> {
  await print(config, (store) => change(store, email, 'user.suspended', { suspended: 1 }));
}

export async function resumeUser({ config }: Call, email: string): Promise<void> {
  await print(config, (store) => change(store, email, 'user.resumed', { suspended: 0 }));
}

export async function billUser({ config }: Call, email: string, state: string): Promise<void> {
  const billing = billingStates.find((one) => one === state);
  if (!billing) throw new Error(`${state} is not one of ${billingStates.join(', ')}`);
  await print(config, (store) => change(store, email, 'user.billing_changed', { billing }, { billing }));
}

export async function makeOperator({ config }: Call, email: string, state: string): Promise<void> {
  if (state !== 'on' && state !== 'off') throw new Error(`${state} is not on or off`);
  const operator = state === 'on' ? 1 : 0;
  const facts = { operator: operator === 1 };
  await print(config, (store) => change(store, email, 'user.operator_changed', { operator }, facts));
}

/** Where the server on the data folder listens, or would listen with these settings. */
function addressForPeople({ tls, host, port, data_dir: folder, base_url: base }: Config): string {
  const wouldListen = `${tls === 'off' ? 'http' : 'https'}://${host.includes(':') ? `[${host}]` : host}:${port}`;
  const bound = addressOfServer(folder) ?? (isSocketPath(host) ? `unix:${host}` : wouldListen);
  if (base === undefined && bound.startsWith('unix:'))
    throw new Error('set base_url, so that the link can say where people find the server');
  return publicUrl(base, bound);
}

export async function print(config: Config, work: (store: Store) => Promise<object>): Promise<void> {
  const store = await openStore(config, console.error);
  try {
    console.log(JSON.stringify(await work(store)));
  } finally {
    await store.close();
  }
}

type Change = Parameters<typeof updateUser>[2];

async function change(
  { db, ids }: Store,
  email: string,
  action: Action,
  values: Change,
  details: Facts = {},
): Promise<object> {
  return db.transaction(async (trx) => {
    const user = await accountOf(trx, email);
    if (Object.entries(values).some(([name, value]) => user[name as keyof UserRow] !== value)) {
      await updateUser(trx, user.email, values);
      await recordAudit(trx, ids, onTheMachine(), { action, subject: { id: user.id, name: user.email }, details });
    }
    return stateOf({ ...user, ...values });
  });
}

function stateOf({ email, kind, suspended, billing, operator }: UserRow): object {
  return { email, kind, suspended: suspended === 1, billing, operator: operator === 1 };
}

export async function accountOf(db: Queries, text: string): Promise<UserRow> {
  const email = readEmail(text);
  const user = await findUser(db, email);
  if (!user) throw new Error(`there is no account ${email}`);
  return user;
}

export function readEmail(text: string): string {
  const email = normalizeEmail(text);
  if (email === undefined) throw new Error(`${text} is not an e-mail address`);
  return email;
}
