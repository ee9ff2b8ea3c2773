import type { IncomingMessage } from 'node:http';
import type { AddressRules } from '../../shared/lib/address-filter.ts';
import { guardedRequest } from '../../shared/lib/guarded-request.ts';
import { RedirectError, type PlainAnswer } from '../filtering-proxy.ts';
import type { Opener } from './channel.ts';

/*
 * git-lfs would follow redirects with a credential, also to other repositories of the host, so it never gets one. It
 * calls an address that does not exist, through its proxy, and the runner calls the repository's one path.
 */

export const largeFilesUrl = 'http://large-files.invalid';

const path = '/objects/batch';
const answerWithinMs = 60_000;
/** git-lfs requests a hundred files at a time. */
const mostBytes = 4 * 1024 * 1024;
const usualType = 'application/vnd.git-lfs+json';

export function largeFileCalls(
  { url, username, password }: Opener,
  rules: AddressRules,
  signal: AbortSignal,
): (request: IncomingMessage) => Promise<PlainAnswer> {
  const headers = {
    accept: usualType,
    'content-type': usualType,
    authorization: `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`,
  };
  return async (request) => {
    if (request.method !== 'POST' || request.url !== largeFilesUrl + path)
      return { status: 405, type: 'text/plain', body: Buffer.alloc(0) };
    const body = (await wholeOf(request)).toString();
    const asked = { url: url + path, headers, body };
    return guardedRequest(asked, { ...rules, answerWithin: answerWithinMs, signal }, async (incoming) => {
      const { statusCode: status = 502, headers: told } = incoming;
      if (status >= 300 && status < 400) throw new RedirectError();
      return { status, type: told['content-type'] ?? usualType, body: await wholeOf(incoming) };
    });
  };
}

async function wholeOf(message: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of message as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > mostBytes) throw new Error('more than a list of large files has');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
