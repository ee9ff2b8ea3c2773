import type { ClientRequest, IncomingMessage } from 'node:http';
import { pipeline, Readable } from 'node:stream';
import { json, text } from 'node:stream/consumers';
import type { Link, Stored } from '../protocol.ts';
import { failureOf } from './failures.ts';

type Open = (
  method: 'GET' | 'POST',
  path: string,
  headers: Record<string, string>,
  signal: AbortSignal,
) => ClientRequest;

const pieceSize = 1024 * 1024;

/** The calls of the link whose bodies are streams. */
export function blobCalls(open: Open): Pick<Link, 'read' | 'store'> {
  return {
    async read(digest, offset, signal) {
      const path = `/runner/blobs/${digest}?offset=${offset}`;
      const request = open('GET', path, {}, signal);
      const answered = answerTo(request);
      request.end();
      const response = await answered;
      if (response.statusCode === 200) return response as AsyncIterable<Buffer>;
      const failure = failureOf(path, response.statusCode, await text(response));
      if (response.statusCode === 404) return undefined;
      throw failure;
    },
    async store(claim, content, signal) {
      const path = '/runner/blobs';
      const headers = { 'content-type': 'application/octet-stream', 'headrace-claim': claim };
      const request = open('POST', path, headers, signal);
      const answered = answerTo(request);
      // When sending fails, the request fails with it, and the caller that awaits the answer gets the error.
      pipeline(Readable.from(content, { objectMode: false, highWaterMark: pieceSize }), request, () => {});
      const response = await answered;
      if (response.statusCode === 200) return (await json(response)) as Stored;
      throw failureOf(path, response.statusCode, await text(response));
    },
  };
}

async function answerTo(request: ClientRequest): Promise<IncomingMessage> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  request.once('response', resolve);
  request.on('error', reject);
  return promise;
}
