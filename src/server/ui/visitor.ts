import { hash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { sessionOf, sessionSeconds, type Person, type Session } from '../auth/sessions.ts';
import type { SignInServices } from '../auth/sign-in.ts';
import type { ClientDocuments } from '../oauth/client-documents.ts';
import type { Issuer } from '../oidc/issuer.ts';
import { randomSecret } from '../../shared/lib/passwords.ts';

export interface OwnServices extends SignInServices {
  /** Signs users in for this server, if the settings name one. */
  issuer: Issuer | undefined;
  /** The public address of this server. */
  origin: () => string;
  documents: ClientDocuments;
}

/** A signed-in user has a session cookie. Other visitors have a random number, which protects forms before sign-in. */
export interface Visitor {
  person: Person | undefined;
  /** The session's token, even if the session is over. */
  session: string | undefined;
  /** The user proved recently who they are. */
  isProven: boolean;
  /** The issuer has to sign the user in again. Until then there is no `person`. */
  isStale: boolean;
  /** The token of a sign-in in progress. */
  flow: string | undefined;
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
  /** Undefined when it is over. */
  keepFlow(reply: FastifyReply, flow: string | undefined): void;
}

const flowSeconds = 10 * 60;

/** Other hosts and subdomains cannot set `__Host-` cookies. Browsers accept this prefix only over TLS. */
export function createCookies({ db }: OwnServices, { isSecure }: { isSecure: boolean }): Cookies {
  const named = (name: string): string => `${isSecure ? '__Host-' : ''}headrace_${name}`;
  const [sessionCookie, visitCookie, flowCookie] = [named('session'), named('visit'), named('flow')];
  const attributes = `Path=/; HttpOnly; SameSite=Lax${isSecure ? '; Secure' : ''}`;
  const set = (reply: FastifyReply, name: string, value: string, maxAge?: number): void => {
    const age = maxAge === undefined ? '' : `; Max-Age=${maxAge}`;
    reply.header('set-cookie', `${name}=${value}; ${attributes}${age}`);
  };

  const sessionIn = async (request: FastifyRequest): Promise<{ token?: string; found?: Session | undefined }> => {
    const token = readCookie(request, sessionCookie, 'hrn');
    return token === undefined ? {} : { token, found: await sessionOf(db.read, token) };
  };

  return {
    async identify(request, reply) {
      const { token: session, found } = await sessionIn(request);
      const flow = readCookie(request, flowCookie, 'hrf');
      const { isProven = false, isStale = false } = found ?? {};
      const common = { session, flow, isProven, isStale };
      if (found && !isStale && session !== undefined)
        return { ...common, person: found.person, formKey: formKeyOf(session) };
      const known = readCookie(request, visitCookie, 'hrv');
      const visit = known ?? randomSecret('hrv');
      if (known === undefined) set(reply, visitCookie, visit);
      return { ...common, person: undefined, formKey: formKeyOf(visit) };
    },
    async person(request) {
      const { found } = await sessionIn(request);
      return found?.isStale ? undefined : found?.person;
    },
    signIn(reply, session) {
      set(reply, sessionCookie, session, sessionSeconds);
      set(reply, visitCookie, '', 0);
    },
    signOut(reply) {
      set(reply, sessionCookie, '', 0);
    },
    keepFlow(reply, flow) {
      set(reply, flowCookie, flow ?? '', flow === undefined ? 0 : flowSeconds);
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
