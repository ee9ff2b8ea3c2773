import type { IncomingMessage } from 'node:http';
import { get as getOverHttps } from 'node:https';
import { codeOf, messageOf } from '../shared/lib/error-code.ts';
import { http } from '../shared/lib/http.ts';

/** Limits on the time until the response begins, and on silence. */
const answerWithinMs = 10_000;
const silentForMs = 60_000;

/**
 * Fetches from a blob storage address, without the server's token and trusted certificates. The address is a secret, so
 * messages contain only its host. `onTrouble` is called if the fetch fails (then the result is undefined), and if the
 * content is interrupted.
 */
export async function fetchDirectly(
  address: string,
  offset: number,
  signal: AbortSignal,
  onTrouble: (host: string, why: string) => void,
): Promise<AsyncIterable<Buffer> | undefined> {
  const url = URL.parse(address);
  if (url?.protocol !== 'https:' && url?.protocol !== 'http:') {
    onTrouble('its store', 'its address is not valid');
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
  request.setTimeout(silentForMs, () => request.destroy(new Error('it stopped sending')));
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
    onTrouble('the connection was interrupted');
    throw new Error('the content is incomplete', { cause: error });
  }
}

/** Network errors contain addresses and codes, but not the requested path. */
function wordFor(error: unknown): string {
  return codeOf(error) || messageOf(error);
}
