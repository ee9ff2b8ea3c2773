import type { ClientRequest, IncomingMessage } from 'node:http';
import { pipeline, Readable } from 'node:stream';
import { json } from 'node:stream/consumers';
import { followsHeader, type Kept, type Link, type Stored } from '../shared/protocol/index.ts';
import { fetchDirectly } from './direct-fetch.ts';
import { failureOf, refusalIn } from './failures.ts';

type Open = (
  method: 'GET' | 'POST',
  path: string,
  headers: Record<string, string>,
  signal: AbortSignal,
) => ClientRequest;

const pieceSize = 1024 * 1024;
/** How long all downloads go through the server after a direct one has failed. */
const avoidMs = 5 * 60_000;

/** The link's calls whose bodies are streams. */
export function blobCalls(open: Open, note: (message: string) => void): Pick<Link, 'read' | 'store' | 'storeFiles'> {
  let direct = { isAvoidedUntil: -Infinity };
  const ask = async (path: string, headers: Record<string, string>, signal: AbortSignal): Promise<IncomingMessage> => {
    const request = open('GET', path, headers, signal);
    const answered = answerTo(request);
    request.end();
    return answered;
  };
  const send = async (
    path: string,
    claim: string,
    content: AsyncIterable<Uint8Array>,
    signal: AbortSignal,
  ): Promise<unknown> => {
    const headers = { 'content-type': 'application/octet-stream', 'headrace-claim': claim };
    const request = open('POST', path, headers, signal);
    const answered = answerTo(request);
    // If sending fails, the request fails too, and the caller that awaits the response gets the error.
    pipeline(Readable.from(content, { objectMode: false, highWaterMark: pieceSize }), request, () => {});
    const response = await answered;
    if (response.statusCode === 200) return json(response);
    throw failureOf(path, response.statusCode, await refusalIn(response));
  };
  return {
    async read(digest, offset, signal) {
      const path = `/runner/blobs/${digest}?offset=${offset}`;
      const mayFollow = performance.now() > direct.isAvoidedUntil;
      let response = await ask(path, mayFollow ? { [followsHeader]: 'yes' } : {}, signal);
      const { location } = response.headers;
      if (response.statusCode === 307 && location !== undefined) {
        response.resume();
        const found = await fetchDirectly(location, offset, signal, (host, why) => {
          signal.throwIfAborted();
          direct = { isAvoidedUntil: performance.now() + avoidMs };
          note(`blobs cannot be fetched directly from ${host} (${why}): they come through the server for some minutes`);
        });
        if (found) return found;
        response = await ask(path, {}, signal);
      }
      if (response.statusCode === 200) return response as AsyncIterable<Buffer>;
      const failure = failureOf(path, response.statusCode, await refusalIn(response));
      if (response.statusCode === 404) return undefined;
      throw failure;
    },
    store: async (claim, content, signal) => (await send('/runner/blobs', claim, content, signal)) as Stored,
    storeFiles: async (claim, content, signal) => (await send('/runner/artifacts', claim, content, signal)) as Kept,
  };
}

async function answerTo(request: ClientRequest): Promise<IncomingMessage> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  request.once('response', resolve);
  request.on('error', reject);
  return promise;
}
