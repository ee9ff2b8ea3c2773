import type { IncomingMessage } from 'node:http';
import https from 'node:https';
import { allowedLookup, type AddressRules } from './address-filter.ts';
import { http } from './http.ts';

export interface GuardedRequest {
  url: string;
  method?: string;
  headers: Record<string, string>;
  body?: string | undefined;
}

export interface RequestRules extends AddressRules {
  /** In milliseconds, for the whole response. */
  answerWithin: number;
  signal: AbortSignal;
}

/**
 * The connection goes to a checked address, so a second lookup cannot change it. Redirects are not followed. Each
 * request has its own connection: a server could close a reused one at that moment, which would look like a failure.
 */
export async function guardedRequest<T>(
  asked: GuardedRequest,
  rules: RequestRules,
  read: (incoming: IncomingMessage) => Promise<T>,
): Promise<T> {
  const ending = new AbortController();
  const late = new Error(`no answer within ${rules.answerWithin / 1000} seconds`);
  const timer = setTimeout(() => ending.abort(late), rules.answerWithin);
  const stop = (): void => ending.abort(rules.signal.reason);
  rules.signal.addEventListener('abort', stop, { once: true });
  if (rules.signal.aborted) stop();
  try {
    return await exchange(asked, rules, ending.signal, read);
  } catch (error) {
    throw ending.signal.aborted ? ending.signal.reason : error;
  } finally {
    clearTimeout(timer);
    rules.signal.removeEventListener('abort', stop);
  }
}

async function exchange<T>(
  { url, method = 'POST', headers, body }: GuardedRequest,
  rules: AddressRules,
  ending: AbortSignal,
  read: (incoming: IncomingMessage) => Promise<T>,
): Promise<T> {
  const target = new URL(url);
  const lookup = await allowedLookup(target, rules, ending);
  const { request } = target.protocol === 'https:' ? https : http;
  const response = Promise.withResolvers<IncomingMessage>();
  const sent = {
    'content-type': 'application/json; charset=utf-8',
    'content-length': Buffer.byteLength(body ?? ''),
  };
  const call = request(target, {
    method,
    agent: false,
    lookup,
    // Even if the environment switches this off: users' keys go over this connection.
    rejectUnauthorized: true,
    ...(rules.trust && { secureContext: rules.trust.context() }),
    signal: ending,
    headers: { ...(body !== undefined && sent), 'user-agent': 'Headrace', ...headers },
  });
  call.once('response', response.resolve);
  // Also after the response: a server that is cut off during a long response may cause an error.
  call.on('error', response.reject);
  call.once('upgrade', (_, socket) => {
    socket.destroy();
    response.reject(new Error('the receiver wants to speak another protocol'));
  });
  call.end(body);
  try {
    return await read(await response.promise);
  } finally {
    call.destroy();
  }
}

const failureMessages: Record<string, string> = {
  ECONNREFUSED: 'the connection was refused',
  ECONNRESET: 'the connection was closed without an answer',
  EPIPE: 'the connection was closed without an answer',
  EHOSTUNREACH: 'the host cannot be reached',
  ENETUNREACH: 'the host cannot be reached',
  ENOTFOUND: 'the host name does not exist',
  EAI_AGAIN: 'the name servers do not respond',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'its certificate is self-signed, and not trusted here',
  SELF_SIGNED_CERT_IN_CHAIN: 'the authority of its certificate is not trusted here',
  UNABLE_TO_GET_ISSUER_CERT: 'the authority of its certificate is not trusted here',
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: 'the authority of its certificate is not trusted here',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'the authority of its certificate is not trusted here',
  CERT_HAS_EXPIRED: 'its certificate has expired',
};

export function failureText(error: unknown): string {
  if (error instanceof AggregateError) return failureText(error.errors[0]);
  if (!(error instanceof Error)) return String(error);
  const code = 'code' in error ? String(error.code) : '';
  if (code.startsWith('HPE_')) return 'the answer is not HTTP';
  if (/wrong version number|packet length too long|http request/i.test(error.message))
    return 'the server answers in plain HTTP, and not over TLS';
  // Node's message ends with a hint for users who start Node themselves.
  const told = error.message.replace(/;? if the root CA is installed locally.*$/s, '');
  return (failureMessages[code] ?? told).slice(0, 500).replaceAll('\0', '\uFFFD');
}

/** The longest wait that a server can request. */
const longestWait = 60 * 60 * 1000;

/** In milliseconds. From seconds or a date (RFC 9110), or from the end of a rate limit. */
export function retryAfterOf(
  { headers, statusCode = 0 }: Pick<IncomingMessage, 'headers' | 'statusCode'>,
  now: number,
) {
  const { 'retry-after': after, 'x-ratelimit-remaining': remaining, 'x-ratelimit-reset': reset } = headers;
  const ms =
    after === undefined
      ? statusCode >= 400 && remaining === '0' && Number(reset) * 1000 - now
      : /^\d+$/.test(after.trim())
        ? Number(after) * 1000
        : Date.parse(after) - now;
  return typeof ms === 'number' && ms > 0 ? Math.min(ms, longestWait) : undefined;
}
