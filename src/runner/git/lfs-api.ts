import { headersIn, type LfsPlace } from './lfs-place.ts';
import { keepLargeFile, type LargeFileStore, type Pointer } from './lfs-store.ts';
import { getFollowing, refusal, smallBody, UnavailableError, type PublicHttps } from './public-https.ts';

/*
 * The batch API of Git LFS: the host names an address for each file, and the file is downloaded from there. No text of
 * the host is shown to users; a file counts only if it has the size and the SHA-256 of its pointer.
 */

const json = 'application/vnd.git-lfs+json';
const atOnce = 100;
const sideBySide = 4;
const mostOfAnswer = 1024 * 1024;

/** Downloads files into the folder; returns why some are missing, if any are. */
export async function downloadLargeFiles(
  https: PublicHttps,
  place: LfsPlace,
  wanted: readonly Pointer[],
  store: LargeFileStore,
): Promise<UnavailableError | undefined> {
  let trouble: UnavailableError | undefined;
  for (let at = 0; at < wanted.length; at += atOnce) {
    const some = wanted.slice(at, at + atOnce);
    const sources = await askFor(https, place, some, store.signal);
    const left = some.values();
    const work = async (): Promise<void> => {
      for (const pointer of left) {
        const from = sources.get(pointer.oid);
        if (from === undefined) continue;
        try {
          await download(https, from, pointer, store);
        } catch (error) {
          if (!(error instanceof UnavailableError)) throw error;
          if (trouble === undefined || trouble.isLasting) trouble = error;
        }
        if (trouble?.isLasting === false) return; // the host has a problem, which would affect the other files too
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
    throw new UnavailableError('its host does not speak the Git LFS protocol', true);
  }
  return sources;
}

async function download(https: PublicHttps, from: LfsPlace, pointer: Pointer, store: LargeFileStore): Promise<void> {
  const { answer } = await getFollowing(https, { ...from, signal: store.signal });
  try {
    await keepLargeFile(store, pointer, answer as AsyncIterable<Buffer>);
  } catch (error) {
    const isCut = error instanceof Error && 'code' in error && cut.has(String(error.code));
    throw isCut && !store.signal.aborted ? new UnavailableError('its host closed the connection early', false) : error;
  } finally {
    answer.destroy();
  }
}

const cut = new Set(['ECONNRESET', 'ERR_STREAM_PREMATURE_CLOSE', 'EPIPE']);
