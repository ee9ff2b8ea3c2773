import type { IncomingMessage } from 'node:http';
import { get as getOverHttps } from 'node:https';
import { codeOf, messageOf } from '../shared/lib/error-code.ts';
import { http } from '../shared/lib/http.ts';

/** How long the blob store may take to answer, and how long it may be silent in between. */
const answerWithinMs = 10_000;
const silentForMs = 60_000;

/**
 * Fetches from an address of the blob store that the server named. The token, and the certificates that this runner
 * trusts for its server, are not used there. The address is a secret, so messages have only its host. Returns undefined
 * if nothing came, after `onTrouble` was called with the reason. It is also called when the content breaks off.
 */
export async function fetchDirectly(
  address: string,
  offset: number,
  signal: AbortSignal,
  onTrouble: (host: string, why: string) => void,
): Promise<AsyncIterable<Buffer> | undefined> {
  const url = URL.parse(address);
  if (url?.protocol !== 'https:' && url?.protocol !== 'http:') {
    onTrouble('its store', 'its address is none');
    return undefined;
  }
  const { host } = url;
  try {
    const response = await answered(url, offset, signal);
    const isRight = offset === 0 ? isWhole(response) : beginsAt(response, offset);
    if (isRight) return whileItComes(response, (why) => onTrouble(host, why));
    response.destroy();
    onTrouble(host, `it answered ${response.statusCode}`);
  } catch (error) {
    onTrouble(host, wordFor(error));
  }
  return undefined;
}

function isWhole({ statusCode }: IncomingMessage): boolean {
  return statusCode === 200;
}

function beginsAt({ statusCode, headers }: IncomingMessage, offset: number): boolean {
  return statusCode === 206 && headers['content-range']?.startsWith(`bytes ${offset}-`) === true;
}

async function answered(url: URL, offset: number, signal: AbortSignal): Promise<IncomingMessage> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  const get = url.protocol === 'https:' ? getOverHttps : http.get;
  const request = get(url, {
    signal,
    rejectUnauthorized: true,
    headers: offset === 0 ? {} : { range: `bytes=${offset}-` },
  });
  const late = setTimeout(() => request.destroy(new Error('it does not answer')), answerWithinMs);
  request.setTimeout(silentForMs, () => request.destroy(new Error('it fell silent')));
  request.once('response', resolve);
  request.on('error', reject);
  try {
    return await promise;
  } finally {
    clearTimeout(late);
  }
}

async function* whileItComes(response: IncomingMessage, onTrouble: (why: string) => void): AsyncGenerator<Buffer> {
  try {
    for await (const piece of response) yield piece as Buffer;
  } catch (error) {
    onTrouble('it broke off in the middle');
    throw new Error('the content broke off', { cause: error });
  }
}

/** Errors of the network have addresses and codes in them, but not the path that was requested. */
function wordFor(error: unknown): string {
  return codeOf(error) || messageOf(error);
}
