import { hash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { CallDeps } from '../api/call.ts';
import { personOf, sessionSeconds, type Person } from '../auth/sessions.ts';
import { randomSecret } from '../../shared/lib/passwords.ts';

export type OwnServices = Pick<CallDeps, 'db' | 'ids'>;

/** A signed-in user has a session cookie. Other visitors have a random number, which protects forms before sign-in. */
export interface Visitor {
  person: Person | undefined;
  /** The session's token, even if the session is over. */
  session: string | undefined;
  /**
   * Part of every form. It is derived from the cookie, which other sites cannot read or set, and does not reveal the
   * cookie. It is masked differently each time, so that compressed lengths reveal nothing (BREACH).
   */
  formKey: string;
}

export interface Cookies {
  identify(request: FastifyRequest, reply: FastifyReply): Promise<Visitor>;
  /** The signed-in user, for pages without a form. */
  person(request: FastifyRequest): Promise<Person | undefined>;
  signIn(reply: FastifyReply, session: string): void;
  signOut(reply: FastifyReply): void;
}

/** Other hosts and subdomains cannot set `__Host-` cookies. Browsers accept this prefix only over TLS. */
export function createCookies({ db }: OwnServices, { isSecure }: { isSecure: boolean }): Cookies {
  const named = (name: string): string => `${isSecure ? '__Host-' : ''}headrace_${name}`;
  const [sessionCookie, visitCookie] = [named('session'), named('visit')];
  const attributes = `Path=/; HttpOnly; SameSite=Lax${isSecure ? '; Secure' : ''}`;
  const set = (reply: FastifyReply, name: string, value: string, maxAge?: number): void => {
    const age = maxAge === undefined ? '' : `; Max-Age=${maxAge}`;
    reply.header('set-cookie', `${name}=${value}; ${attributes}${age}`);
  };

  return {
    async identify(request, reply) {
      const session = readCookie(request, sessionCookie, 'hrn');
      const person = await this.person(request);
      if (person && session !== undefined) return { person, session, formKey: formKeyOf(session) };
      const known = readCookie(request, visitCookie, 'hrv');
      const visit = known ?? randomSecret('hrv');
      if (known === undefined) set(reply, visitCookie, visit);
      return { person: undefined, session, formKey: formKeyOf(visit) };
    },
    async person(request) {
      const session = readCookie(request, sessionCookie, 'hrn');
      return session === undefined ? undefined : personOf(db.read, session);
    },
    signIn(reply, session) {
      set(reply, sessionCookie, session, sessionSeconds);
      set(reply, visitCookie, '', 0);
    },
    signOut(reply) {
      set(reply, sessionCookie, '', 0);
    },
  };
}

function readCookie({ headers }: FastifyRequest, name: string, prefix: string): string | undefined {
  const pairs = (headers.cookie ?? '').split(';').map((pair) => pair.trim());
  const value = pairs.find((pair) => pair.startsWith(`${name}=`))?.slice(name.length + 1);
  return value !== undefined && new RegExp(`^${prefix}_[\\w-]{43}$`).test(value) ? value : undefined;
}

const keyLength = 32;

/** A random mask, followed by the key XORed with it. */
function formKeyOf(cookie: string): string {
  const mask = randomBytes(keyLength);
  const key = hash('sha256', `form ${cookie}`, 'buffer');
  return Buffer.concat([mask, masked(key, mask)]).toString('base64url');
}

function masked(key: Buffer, mask: Buffer): Buffer {
  return Buffer.from(key.map((byte, at) => byte ^ (mask[at] ?? 0)));
}

function unmasked(formKey: string): Buffer {
  const bytes = Buffer.from(formKey, 'base64url');
  return masked(bytes.subarray(keyLength), bytes.subarray(0, keyLength));
}

export function fitsFormKey(sent: string, { formKey }: Visitor): boolean {
  const [actual, expected] = [unmasked(sent), unmasked(formKey)];
  return actual.length === expected.length && timingSafeEqual(actual, expected);
}

/**
 * Browsers report a request's origin in `Sec-Fetch-Site`. Their `Origin` is `null`, because our pages send no referrer.
 * Older browsers send neither header, and then only the form's key counts.
 */
export function isFromOurPages({ headers, host }: FastifyRequest, baseUrl: string | undefined): boolean {
  const { 'sec-fetch-site': site, origin } = headers;
  if (site !== undefined) return site === 'same-origin';
  if (origin === undefined || origin === 'null') return true;
  const ours = [host, ...(baseUrl === undefined ? [] : [new URL(baseUrl).host])];
  return URL.canParse(origin) && ours.includes(new URL(origin).host);
}
