import { once } from 'node:events';
import { Socket } from 'node:net';
import { keepTail } from '../../lib/tail.ts';
import { mostKept, openEnds, closeTimeoutMs, type Channel } from './channel.ts';
import { asUnavailable, getFollowing, refusal, smallBody, UnavailableError, type PublicHttps } from './public-https.ts';

/*
 * A public repository over HTTPS, for a git that believes to speak over SSH. In version 2 of git's protocol both are
 * the same: the remote lists its capabilities; then each request is independent, ends with a flush, and gets one
 * answer. Over HTTPS every request is a separate call. This code only finds the end of each request; answers are passed
 * on as they come, up to a limit.
 */

export interface HttpsRepository {
  url: string;
  https: PublicHttps;
  /** The most bytes from the remote in total. */
  mostBytes: number;
  signal: AbortSignal;
  /** Called with the reason of a failure. */
  onTrouble: (trouble: unknown) => void;
}

const mostOfGreeting = 1024 * 1024;
const mostOfRequest = 8 * 1024 * 1024;
const version2 = { 'git-protocol': 'version=2' };

export function openHttpsChannel(
  pipes: string,
  repository: HttpsRepository,
  hear: (chunk: Buffer) => Promise<void>,
): Channel {
  const { reads, writes, release } = openEnds(pipes);
  const fromGit = new Socket({ fd: reads, readable: true, writable: false });
  const toGit = new Socket({ fd: writes, readable: false, writable: true });
  for (const end of [fromGit, toGit]) end.on('error', () => {}); // git has ended, which is reported elsewhere
  const stop = new AbortController();
  const signal = AbortSignal.any([repository.signal, stop.signal]);
  const said = keepTail(mostKept);
  const over = converse(repository, fromGit, toGit, signal)
    .catch(async (error: unknown) => {
      if (signal.aborted || toGit.destroyed) return; // no caller waits for it any more
      repository.onTrouble(error);
      const words = Buffer.from(`https: ${error instanceof Error ? error.message : 'it failed'}\n`);
      said.add(words);
      await hear(words).catch(() => {});
    })
    .finally(() => {
      fromGit.destroy();
      toGit.end();
    });
  return {
    joined: release,
    kill: () => stop.abort(),
    end: async () => {
      release();
      const timeout = setTimeout(() => stop.abort(), closeTimeoutMs);
      await over;
      clearTimeout(timeout);
      toGit.destroy();
      return said.bytes();
    },
  };
}

async function converse(
  repository: HttpsRepository,
  fromGit: Socket,
  toGit: Socket,
  signal: AbortSignal,
): Promise<void> {
  const { https, mostBytes } = repository;
  let left = mostBytes;
  const { base, greeting } = await greet(https, new URL(repository.url), signal);
  await write(toGit, greeting, signal);
  for await (const body of requestsOf(fromGit)) {
    const headers = {
      ...version2,
      'content-type': 'application/x-git-upload-pack-request',
      accept: 'application/x-git-upload-pack-result',
    };
    const answer = await https.call({ url: new URL(`${base}/git-upload-pack`), headers, body, signal });
    try {
      if (answer.statusCode !== 200) throw refusal(answer.statusCode);
      for await (const chunk of answer as AsyncIterable<Buffer>) {
        left -= chunk.length;
        if (left < 0) throw new UnavailableError('it is larger than a checkout may be (HEADRACE_CHECKOUT_SIZE)', true);
        await write(toGit, chunk, signal);
      }
    } catch (error) {
      throw asUnavailable(error);
    } finally {
      answer.destroy();
    }
  }
}

const serviceLine = '001e# service=git-upload-pack\n0000';

/** The remote's capabilities, and its final address after redirects. */
async function greet(https: PublicHttps, url: URL, signal: AbortSignal): Promise<{ base: string; greeting: Buffer }> {
  const ending = '/info/refs?service=git-upload-pack';
  const asked = new URL(url.href.replace(/\/+$/, '') + ending);
  const { url: at, answer } = await getFollowing(https, { url: asked, headers: version2, signal });
  const type = answer.headers['content-type'];
  const body = await smallBody(answer, mostOfGreeting);
  const words = body.toString('latin1');
  const isGit = type === 'application/x-git-upload-pack-advertisement' && at.href.endsWith(ending);
  if (!isGit) throw new UnavailableError('there is no git repository', true);
  const greeting = words.startsWith(serviceLine) ? words.slice(serviceLine.length) : words;
  if (!greeting.startsWith('000eversion 2\n')) {
    throw new UnavailableError("its host does not speak version 2 of git's protocol", true);
  }
  return { base: at.href.slice(0, -ending.length), greeting: Buffer.from(greeting, 'latin1') };
}

/** Each request with its flush. A flush alone is how git ends. */
async function* requestsOf(fromGit: Socket): AsyncGenerator<Buffer> {
  let held: Buffer = Buffer.alloc(0);
  let at = 0;
  for await (const chunk of fromGit as AsyncIterable<Buffer>) {
    held = Buffer.concat([held, chunk]);
    if (held.length > mostOfRequest) throw new UnavailableError('the request for it is too long', true);
    while (held.length - at >= 4) {
      const length = Number.parseInt(held.toString('latin1', at, at + 4), 16);
      if (!Number.isInteger(length)) throw new UnavailableError('the request of git cannot be read', true);
      if (length >= 4 && held.length - at < length) break;
      at += Math.max(length, 4); // below four: a mark without content
      if (length !== 0) continue;
      if (at === 4) return;
      yield held.subarray(0, at);
      held = Buffer.from(held.subarray(at));
      at = 0;
    }
  }
}

async function write(toGit: Socket, chunk: Buffer, signal: AbortSignal): Promise<void> {
  if (toGit.destroyed) throw new Error('git has ended');
  if (toGit.write(chunk)) return;
  const gone = new AbortController();
  const leave = (): void => gone.abort();
  toGit.once('close', leave);
  try {
    await once(toGit, 'drain', { signal: AbortSignal.any([signal, gone.signal]) });
  } finally {
    toGit.off('close', leave);
  }
}
