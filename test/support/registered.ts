import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { insertRunner } from '../../src/server/auth/runners.ts';
import { detached } from '../../src/server/queue/leases.ts';
import { openLink } from '../../src/runner/link.ts';
import type { Service } from './service.ts';
import { freshName, type User } from './user.ts';

export interface Registered {
  name: string;
  token: string;
  link: ReturnType<typeof openLink>;
}

/** A remote runner with its own token. A test decides what it sends over HTTPS. */
export async function registered(service: Service, accounts: User[] = []): Promise<Registered> {
  const { db, ids } = service.store;
  const name = freshName('runner').replace(' ', '-');
  const emails = accounts.map(({ email }) => email);
  const rows = await db.read.selectFrom('users').select(['id', 'email']).execute();
  const owners = rows.filter(({ email }) => emails.includes(email)).map(({ id }) => id);
  const { token } = await db.transaction((trx) => insertRunner(trx, ids, name, owners));
  return { name, token, link: linkWith(service, token) };
}

export function linkWith(
  service: Service,
  token: string,
  { tags = '', ...slots }: { tags?: string; slots?: number } = {},
): ReturnType<typeof openLink> {
  return openLink({ url: service.address, token, ca: authorityOf(service), tags, ...slots });
}

/** Nobody extends the claim of such a runner: it lasts however slow the machine is. */
export async function keepClaim({ store: { db } }: Service, claim: string): Promise<void> {
  await db.transaction((trx) =>
    trx.updateTable('jobs').set({ claimed_until: detached }).where('claim', '=', claim).execute(),
  );
}

export function authorityOf({ folder }: Service): string {
  return readFileSync(join(folder, 'tls', 'cert.pem'), 'utf8');
}
