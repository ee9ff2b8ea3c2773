import type { IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { ForbiddenAddressError, judgedLookup, type AddressRules } from '../../lib/public-addresses.ts';

/*
 * Submodules and large files that a repository names, over HTTPS. Any author of the repository chooses the addresses.
 * So only public ones are called, none gets a credential that it did not issue itself, and every certificate is
 * verified.
 */

export interface PublicHttps {
  /** Resolves with the head of the answer; the caller reads the answer or destroys it. Redirects are answers. */
  call(request: HttpsRequest): Promise<IncomingMessage>;
}

export interface HttpsRequest {
  url: URL;
  headers?: Record<string, string>;
  /** A request with a body is a POST. */
  body?: Buffer;
  signal: AbortSignal;
}

export interface PublicHttpsOptions extends AddressRules {
  /** How long a connection may take; the answer may take four times that to begin. */
  connectMs: number;
  /** Replaces the authorities that this machine trusts. */
  ca?: string | undefined;
}

/** Something cannot be fetched, for a reason in words. `isLasting`: a later try would most likely fail too. */
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
            'accept-encoding': 'identity', // a small answer must not unpack to a large one
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
        call.on('error', answer.reject); // also after the answer began, if it is cut off
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

export const notPublic = 'its address is not public, and the operator of this runner has not allowed it';
const certificates = /^(ERR_TLS_CERT|CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO_(GET|VERIFY))/;

function inWords(error: unknown): UnavailableError {
  if (error instanceof UnavailableError) return error;
  if (error instanceof ForbiddenAddressError) {
    return new UnavailableError(notPublic, true);
  }
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  if (certificates.test(code)) return new UnavailableError('its certificate is not one that this runner trusts', true);
  return new UnavailableError(code === 'ENOTFOUND' ? 'its host is not known' : 'its host does not answer', false);
}

/** The error for a status that is not a success. */
export function refusal(status = 0): UnavailableError {
  if (status === 429 || status >= 500) return new UnavailableError(`its host answers ${status}`, false);
  if ([401, 403, 404, 410].includes(status)) {
    return new UnavailableError(`its host refuses anonymous access (${status})`, true);
  }
  return new UnavailableError(`its host answers ${status}`, true);
}

const mostRedirects = 5;

/** Follows redirects to a successful answer; each address is judged like the first. */
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
    if (next === null) throw new UnavailableError('it redirects to an invalid address', true);
    // Credentials of one host must not go to another.
    if (next.origin !== url.origin && request.headers?.['authorization'] !== undefined) throw refusal(status);
    url = withoutCredentials(next);
  }
  throw new UnavailableError('it redirects too often', true);
}

export function withoutCredentials(url: URL): URL {
  const plain = new URL(url);
  plain.username = '';
  plain.password = '';
  plain.hash = '';
  return plain;
}

/** The whole body of an answer that must be small. */
export async function smallBody(answer: IncomingMessage, most: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    for await (const chunk of answer as AsyncIterable<Buffer>) {
      size += chunk.length;
      if (size > most) throw new UnavailableError('its host sends more than expected', true);
      chunks.push(chunk);
    }
  } catch (error) {
    throw asUnavailable(error);
  } finally {
    answer.destroy();
  }
  return Buffer.concat(chunks);
}

/** The reason why an answer could not be read to its end. */
export function asUnavailable(error: unknown): UnavailableError {
  if (error instanceof UnavailableError) return error;
  return new UnavailableError('its host closed the connection early', false);
}
