import type { IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { ForbiddenAddressError, judgedLookup, type AddressRules } from '../../lib/public-addresses.ts';

/*
 * What a repository names besides itself, over HTTPS: submodules and large files. Whoever writes to a repository chooses
 * the addresses, so only public ones are called, none of them gets to know a credential that it did not give out itself,
 * and no certificate is taken on trust.
 */

export interface PublicHttps {
  /** Answers once the head of the answer is there; whoever gets it reads it, or destroys it. Redirects are answers. */
  call(request: HttpsRequest): Promise<IncomingMessage>;
}

export interface HttpsRequest {
  url: URL;
  headers?: Record<string, string>;
  /** With a body it is a POST. */
  body?: Buffer;
  signal: AbortSignal;
}

export interface PublicHttpsOptions extends AddressRules {
  /** How long a connection may take; an answer may take four times that to begin. */
  connectMs: number;
  /** Instead of the authorities that this machine trusts. */
  ca?: string | undefined;
}

/** Something cannot be had, for a reason in words. `isLasting`: nor can it be later, as far as one can tell. */
export class UnavailableError extends Error {
  override name = 'UnavailableError';
  isLasting: boolean;

  constructor(why: string, isLasting: boolean) {
    super(why);
    this.isLasting = isLasting;
  }
}

export function openPublicHttps(options: PublicHttpsOptions): PublicHttps {
  const { connectMs, ca } = options;
  return {
    async call({ url, headers = {}, body, signal }) {
      if (url.protocol !== 'https:') throw new UnavailableError('it is not an https address', true);
      signal.throwIfAborted();
      const late = new AbortController();
      let timer = setTimeout(() => late.abort(), connectMs);
      const ending = AbortSignal.any([signal, late.signal]);
      try {
        const lookup = await judgedLookup(url, options, ending);
        const answer = Promise.withResolvers<IncomingMessage>();
        const call = httpsRequest(url, {
          method: body === undefined ? 'GET' : 'POST',
          agent: false,
          lookup,
          signal, // also while the answer is read
          ...(ca === undefined ? {} : { ca }),
          headers: {
            'user-agent': 'git/2 (Headrace)',
            'accept-encoding': 'identity', // what is small on the way and large here is not asked for
            ...headers,
            ...(body === undefined ? {} : { 'content-length': String(body.length) }),
          },
        });
        late.signal.addEventListener('abort', () => call.destroy(new Error('it does not answer')), { once: true });
        call.once('socket', (socket) =>
          socket.once('secureConnect', () => {
            clearTimeout(timer);
            timer = setTimeout(() => late.abort(), 4 * connectMs);
          }),
        );
        call.once('response', answer.resolve);
        call.on('error', answer.reject); // also after the answer, when that is cut off
        call.once('upgrade', (_, socket) => {
          socket.destroy();
          answer.reject(new UnavailableError('it wants to speak another protocol', true));
        });
        call.end(body);
        return await answer.promise;
      } catch (error) {
        signal.throwIfAborted();
        throw inWords(error);
      } finally {
        clearTimeout(timer);
      }
    },
  };
}

const certificates = /^(ERR_TLS_CERT|CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO_(GET|VERIFY))/;

function inWords(error: unknown): UnavailableError {
  if (error instanceof UnavailableError) return error;
  if (error instanceof ForbiddenAddressError) {
    return new UnavailableError('its address is not public, and the operator of this runner has not allowed it', true);
  }
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  if (certificates.test(code)) return new UnavailableError('its certificate is not one that this runner trusts', true);
  return new UnavailableError(code === 'ENOTFOUND' ? 'its host is not known' : 'its host does not answer', false);
}

/** What a status that is none of success means. */
export function refusal(status = 0): UnavailableError {
  if (status === 429 || status >= 500) return new UnavailableError(`its host answers ${status}`, false);
  if ([401, 403, 404, 410].includes(status)) {
    return new UnavailableError(`its host does not give it to strangers (${status})`, true);
  }
  return new UnavailableError(`its host answers ${status}`, true);
}

const mostRedirects = 5;

/** Follows redirects, each of which is judged like the first address, to an answer of success. */
export async function getFollowing(
  https: PublicHttps,
  request: HttpsRequest,
): Promise<{ url: URL; answer: IncomingMessage }> {
  let { url } = request;
  for (let count = 0; count <= mostRedirects; count += 1) {
    const answer = await https.call({ ...request, url });
    const { statusCode: status = 0, headers } = answer;
    if (status === 200) return { url, answer };
    answer.destroy();
    if (![301, 302, 303, 307, 308].includes(status)) throw refusal(status);
    const next = URL.parse(headers.location ?? '', url.href);
    if (next === null) throw new UnavailableError('it leads to an address that is none', true);
    // What somebody was told about themselves goes to nobody else.
    if (next.origin !== url.origin && request.headers?.['authorization'] !== undefined) throw refusal(status);
    url = withoutCredentials(next);
  }
  throw new UnavailableError('it leads from one address to the next without end', true);
}

export function withoutCredentials(url: URL): URL {
  const plain = new URL(url);
  plain.username = '';
  plain.password = '';
  plain.hash = '';
  return plain;
}

/** The whole of an answer that must be small. */
export async function smallBody(answer: IncomingMessage, most: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    for await (const chunk of answer as AsyncIterable<Buffer>) {
      size += chunk.length;
      if (size > most) throw new UnavailableError('its host says more than it should', true);
      chunks.push(chunk);
    }
  } catch (error) {
    throw error instanceof UnavailableError ? error : new UnavailableError('its host broke off', false);
  } finally {
    answer.destroy();
  }
  return Buffer.concat(chunks);
}
