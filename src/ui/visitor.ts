import { hash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { personOf, sessionSeconds } from '../auth/sessions.ts';
import type { Queries } from '../db/open.ts';
import type { UserRow } from '../db/schema.ts';
import { randomSecret } from '../lib/passwords.ts';

/**
 * Who looks at a page, known by cookies. Somebody who is signed in has a session; somebody who is not has a number
 * that says nothing but "the same browser", so that forms are protected before there is a session, too.
 */
export interface Visitor {
  person: Readonly<UserRow> | undefined;
  /** The session's token, also where the session is over. */
  session: string | undefined;
  /**
   * What every form carries. It is made of the cookie, which other sites can neither read nor set, and says nothing
   * of it. It is spelled differently each time, so that the length of a packed page tells nothing of it (BREACH).
   */
  formKey: string;
}

export interface Cookies {
  identify(request: FastifyRequest, reply: FastifyReply, db: Queries): Promise<Visitor>;
  /** Who is signed in, where no form follows. */
  person(request: FastifyRequest, db: Queries): Promise<Readonly<UserRow> | undefined>;
  signIn(reply: FastifyReply, session: string): void;
  signOut(reply: FastifyReply): void;
}

/** `__Host-` lets no other host, not even a subdomain, set them; browsers take the prefix over TLS alone. */
export function createCookies({ isSecure }: { isSecure: boolean }): Cookies {
  const named = (name: string): string => `${isSecure ? '__Host-' : ''}headrace_${name}`;
  const [sessionCookie, visitCookie] = [named('session'), named('visit')];
  const attributes = `Path=/; HttpOnly; SameSite=Lax${isSecure ? '; Secure' : ''}`;
  const set = (reply: FastifyReply, name: string, value: string, maxAge?: number): void => {
    const age = maxAge === undefined ? '' : `; Max-Age=${maxAge}`;
    reply.header('set-cookie', `${name}=${value}; ${attributes}${age}`);
  };

  return {
    async identify(request, reply, db) {
      const session = readCookie(request, sessionCookie, 'hrn');
      const person = session === undefined ? undefined : await personOf(db, session);
      if (person && session !== undefined) return { person, session, formKey: formKeyOf(session) };
      const known = readCookie(request, visitCookie, 'hrv');
      const visit = known ?? randomSecret('hrv');
      if (known === undefined) set(reply, visitCookie, visit);
      return { person: undefined, session, formKey: formKeyOf(visit) };
    },
    async person(request, db) {
      const session = readCookie(request, sessionCookie, 'hrn');
      return session === undefined ? undefined : personOf(db, session);
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

/** Only what has the form of a value that we gave. */
function readCookie({ headers }: FastifyRequest, name: string, prefix: string): string | undefined {
  const pairs = (headers.cookie ?? '').split(';').map((pair) => pair.trim());
  const value = pairs.find((pair) => pair.startsWith(`${name}=`))?.slice(name.length + 1);
  return value !== undefined && new RegExp(`^${prefix}_[\\w-]{43}$`).test(value) ? value : undefined;
}

const keyLength = 32;

/** The key, hidden behind a mask of the same length that stands before it. */
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
 * Whether a form can have come from one of our pages. Browsers say where a request comes from in `Sec-Fetch-Site`; in
 * `Origin` they say `null`, because our pages ask them to name no referrer. Older ones say neither, and then the key
 * in the form decides alone.
 */
export function isFromOurPages({ headers, host }: FastifyRequest, baseUrl: string | undefined): boolean {
  const { 'sec-fetch-site': site, origin } = headers;
  if (site !== undefined) return site === 'same-origin';
  if (origin === undefined || origin === 'null') return true;
  const ours = [host, ...(baseUrl === undefined ? [] : [new URL(baseUrl).host])];
  return URL.canParse(origin) && ours.includes(new URL(origin).host);
}
