import { hash, randomBytes } from 'node:crypto';
import { insertToken } from '../../src/server/auth/tokens.ts';
import { findUser } from '../../src/server/auth/users.ts';
import { insertClient } from '../../src/server/oauth/clients.ts';
import { insertCode, type Allowed } from '../../src/server/oauth/codes.ts';
import type { Scope } from '../../src/server/http/route.ts';
import type { Answer } from './client.ts';
import type { Service } from './service.ts';
import type { User } from './user.ts';

export const callbackAddress = 'https://app.example.org/callback';

/** A registered application, and its calls to the service. */
export class Application {
  readonly #service: Service;
  readonly id: bigint;
  readonly clientId: string;
  readonly secret: string | undefined;

  constructor(service: Service, id: bigint, secret: string | undefined) {
    this.#service = service;
    this.id = id;
    this.clientId = String(id);
    this.secret = secret;
  }

  /** The access token after a user has allowed these scopes. */
  async token(user: User, scopes: readonly Scope[], forMcp = false): Promise<string> {
    const { db, ids } = this.#service.store;
    const grant = { clientId: this.id, userId: await userId(this.#service, user), scopes, forMcp };
    return db.transaction(async (trx) => (await insertToken(trx, ids, grant, null)).token);
  }

  /** A code as the authorize page gives it. */
  async code(user: User, allowed: Partial<Allowed> = {}): Promise<string> {
    const { db, ids } = this.#service.store;
    const whole: Allowed = {
      clientId: this.id,
      userId: await userId(this.#service, user),
      scopes: ['user', 'projects'],
      redirectUri: callbackAddress,
      redirectUriSent: true,
      challenge: undefined,
      ...allowed,
    };
    return db.transaction((trx) => insertCode(trx, ids, whole));
  }

  /** Calls the token endpoint as this application. Undefined fields are left out. */
  exchange(fields: Record<string, string | undefined>, headers: Record<string, string> = {}): Promise<Answer> {
    const all: Record<string, string | undefined> = {
      grant_type: 'authorization_code',
      client_id: this.clientId,
      client_secret: this.secret,
      redirect_uri: callbackAddress,
      ...fields,
    };
    const sent = Object.entries(all).filter((pair): pair is [string, string] => pair[1] !== undefined);
    return this.#service.api.post('/oauth2/access_token', { form: sent, headers });
  }
}

export async function registerApplication(
  service: Service,
  owner: User,
  { isPublic = false, name = 'Build lamp', redirectUris = [callbackAddress] } = {},
): Promise<Application> {
  const { db, ids } = service.store;
  const ownerId = await userId(service, owner);
  const form = { ownerId, name, redirectUris, isPublic };
  const { client, secret } = await db.transaction((trx) => insertClient(trx, ids, form));
  return new Application(service, client.id, secret);
}

async function userId(service: Service, { email }: User): Promise<bigint> {
  const user = await findUser(service.store.db.read, email);
  if (!user) throw new Error(`nobody has the address ${email}`);
  return user.id;
}

/** A verifier and its challenge, as in RFC 7636. */
export function pkcePair(): { verifier: string; challenge: string } {
  const verifier = randomBytes(32).toString('base64url');
  return { verifier, challenge: hash('sha256', verifier, 'base64url') };
}
