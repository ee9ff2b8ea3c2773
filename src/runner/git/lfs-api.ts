import { createHash } from 'node:crypto';
import { rename, rm } from 'node:fs/promises';
import { createWriteStream } from 'node:fs';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { randomName } from '../../lib/random-name.ts';
import type { Pointer } from './large-files.ts';
import { headersIn, type LfsPlace } from './lfs-place.ts';
import type { Workshop } from './obtain.ts';
import { getFollowing, refusal, smallBody, UnavailableError, type PublicHttps } from './public-https.ts';

/*
 * The batch API of Git LFS: one is told where each file can be had, and gets it from there. Nothing that the other side
 * says is shown to anybody; a file counts only if it has the size and the SHA-256 of its pointer.
 */

const json = 'application/vnd.git-lfs+json';
const atOnce = 100;
const sideBySide = 4;
const mostOfAnswer = 1024 * 1024;

/** Downloads what it can into the folder; answers why something is missing, if something is. */
export async function downloadLargeFiles(
  { https, takeRoom }: Pick<Workshop, 'https' | 'takeRoom'>,
  place: LfsPlace,
  wanted: readonly Pointer[],
  folder: string,
  signal: AbortSignal,
): Promise<UnavailableError | undefined> {
  let trouble: UnavailableError | undefined;
  for (let at = 0; at < wanted.length; at += atOnce) {
    const some = wanted.slice(at, at + atOnce);
    const sources = await askFor(https, place, some, signal);
    const left = some.values();
    const work = async (): Promise<void> => {
      for (const pointer of left) {
        const from = sources.get(pointer.oid);
        if (from === undefined) continue;
        try {
          await download(https, from, pointer, { folder, takeRoom, signal });
        } catch (error) {
          if (!(error instanceof UnavailableError)) throw error;
          if (trouble === undefined || trouble.isLasting) trouble = error;
        }
        if (trouble?.isLasting === false) return; // the host is in trouble: so it would be for the others
      }
    };
    const ends = await Promise.allSettled(Array.from({ length: sideBySide }, work));
    for (const end of ends) if (end.status === 'rejected') throw end.reason;
    if (trouble?.isLasting === false) return trouble;
  }
  return trouble;
}

async function askFor(
  https: PublicHttps,
  { url, headers }: LfsPlace,
  wanted: readonly Pointer[],
  signal: AbortSignal,
): Promise<Map<string, LfsPlace>> {
  const objects = wanted.map(({ oid, size }) => ({ oid, size }));
  const body = Buffer.from(
    JSON.stringify({ operation: 'download', transfers: ['basic'], hash_algo: 'sha256', objects }),
  );
  const answer = await https.call({
    url: new URL(`${url.href.replace(/\/+$/, '')}/objects/batch`),
    headers: { ...headers, accept: json, 'content-type': json },
    body,
    signal,
  });
  const text = (await smallBody(answer, mostOfAnswer)).toString();
  if (answer.statusCode !== 200) throw refusal(answer.statusCode);
  return sourcesIn(text);
}

interface Answered {
  oid?: unknown;
  actions?: { download?: { href?: unknown; header?: unknown } };
}

function sourcesIn(text: string): Map<string, LfsPlace> {
  const sources = new Map<string, LfsPlace>();
  try {
    const { objects } = JSON.parse(text) as { objects?: unknown };
    for (const { oid, actions } of Array.isArray(objects) ? (objects as Answered[]) : []) {
      const { href, header } = actions?.download ?? {};
      const url = typeof href === 'string' ? URL.parse(href) : null;
      if (typeof oid === 'string' && url !== null) sources.set(oid, { url, headers: headersIn(header) });
    }
  } catch {
    throw new UnavailableError('its host does not speak the language of Git LFS', true);
  }
  return sources;
}

interface Into {
  folder: string;
  takeRoom: (bytes: number) => Promise<void>;
  signal: AbortSignal;
}

async function download(https: PublicHttps, from: LfsPlace, { oid, size }: Pointer, into: Into): Promise<void> {
  const { folder, takeRoom, signal } = into;
  const part = join(folder, `${randomName()}.part`);
  const hash = createHash('sha256');
  const wrong = new UnavailableError('what its host gives out is not what the pointer stands for', true);
  const { answer } = await getFollowing(https, { ...from, signal });
  async function* checked(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    let left = size;
    for await (const chunk of chunks) {
      left -= chunk.length;
      if (left < 0) throw wrong;
      await takeRoom(chunk.length);
      hash.update(chunk);
      yield chunk;
    }
    if (left > 0) throw new UnavailableError('its host broke off', false);
  }
  try {
    await pipeline(answer, checked, createWriteStream(part, { flags: 'wx', mode: 0o444 }), { signal });
    if (hash.digest('hex') !== oid) throw wrong;
    await rename(part, join(folder, oid));
  } catch (error) {
    await rm(part, { force: true });
    const isCut =
      error instanceof Error &&
      'code' in error &&
      /^(ECONNRESET|ERR_STREAM_PREMATURE_CLOSE|EPIPE)$/.test(String(error.code));
    throw isCut && !signal.aborted ? new UnavailableError('its host broke off', false) : error;
  } finally {
    answer.destroy();
  }
}
