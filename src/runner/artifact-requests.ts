import { frameHead } from '../shared/domain/file-frames.ts';
import type { Link } from '../shared/protocol/index.ts';
import type { CollectedFile } from './collector.ts';
import { StoreAwayError } from './failures.ts';
import { handOver } from './hand-over.ts';
import { isFinal } from './retry.ts';
import { expectStored } from './transfers.ts';

/** Limits of one request, and so of what is sent again after a lost connection. */
const requestBytes = 64 * 1024 * 1024;
const requestFiles = 1000;

export interface Amount {
  files: number;
  bytes: number;
}

/** A request was interrupted; the next one may succeed. */
export class BrokenOffError extends Error {}

export interface ArtifactRequest {
  take(file: CollectedFile): Promise<void>;
  /** Throws unless the server has stored everything. */
  end(): Promise<void>;
}

export function oneRequest(link: Pick<Link, 'storeFiles'>, claim: string, signal: AbortSignal): ArtifactRequest {
  const over = new AbortController();
  const passage = handOver();
  const answered = link
    .storeFiles(claim, passage.chunks(), AbortSignal.any([signal, over.signal]))
    .then(expectStored, brokenOff);
  // A response before the end means a refusal or a lost connection, so it is useless to send more.
  let early: { error: unknown } | undefined;
  const stop = (error: unknown): void => {
    early = { error };
    passage.discard();
  };
  answered.then(() => stop(new BrokenOffError('the server answered too early')), stop);
  const give = async (bytes: Buffer): Promise<void> => {
    await passage.give(bytes);
    if (early) throw early.error;
  };
  const dropping = async (work: Promise<void>): Promise<void> =>
    work.catch((error: unknown) => {
      passage.discard();
      over.abort();
      throw error;
    });
  return {
    take: ({ path, size, content }) =>
      dropping(
        (async () => {
          await give(frameHead('F', size, path));
          for await (const piece of content) await give(piece);
        })(),
      ),
    end: () => {
      passage.end();
      return dropping(answered);
    },
  };
}

function brokenOff(error: unknown): never {
  throw isFinal(error) || error instanceof StoreAwayError
    ? error
    : new BrokenOffError('a request was interrupted', { cause: error });
}

/** Spreads the files over requests. `sent` counts only files that the server has confirmed. */
export function inRequests(open: () => ArtifactRequest, sent: Amount): ArtifactRequest {
  let current: { request: ArtifactRequest; files: number; bytes: number } | undefined;
  const end = async (): Promise<void> => {
    if (!current) return;
    const { request, files, bytes } = current;
    await request.end();
    current = undefined;
    sent.files += files;
    sent.bytes += bytes;
  };
  return {
    async take(file) {
      current ??= { request: open(), files: 0, bytes: 0 };
      await current.request.take(file);
      current.files += 1;
      current.bytes += file.size;
      if (current.bytes >= requestBytes || current.files >= requestFiles) await end();
    },
    end,
  };
}
