import { bytes } from '../shared/domain/bounds.ts';
import type { IncludedText, IncludeOrder } from '../shared/protocol/index.ts';
import { FetchError } from './git/failures.ts';
import type { Mirrors } from './git/mirrors.ts';

/** For all of them together. */
const patienceMs = 300_000;

/**
 * Reads single files of other projects. Nothing of these repositories gets into the log, because its readers may not be
 * allowed to read them. A commit on no branch and no tag may be a fork's, and has no file.
 */
export async function readIncluded(
  mirrors: Pick<Mirrors, 'fetch'>,
  includes: readonly IncludeOrder[],
  signal: AbortSignal,
): Promise<IncludedText[]> {
  const late = AbortSignal.timeout(patienceMs);
  const read: IncludedText[] = [];
  let room = bytes.includedFiles;
  for (const { source, ref, path } of includes) {
    try {
      const { sha, config } = await mirrors.fetch({
        ...source,
        commitRef: ref,
        configFile: path,
        writeLog: async () => {},
        signal: AbortSignal.any([signal, late]),
      });
      if (!config) read.push({ problem: 'is of a commit that is on no branch and no tag' });
      else if (!('text' in config)) read.push({ problem: 'is no file there, or is too large, or is not UTF-8 text' });
      else {
        room -= Buffer.byteLength(config.text);
        read.push(room < 0 ? { problem: tooMuch } : { sha, text: config.text });
      }
    } catch (error) {
      signal.throwIfAborted();
      if (!late.aborted && !(error instanceof FetchError)) throw error;
      read.push({ problem: `could not be fetched (${error instanceof FetchError ? error.kind : 'fetch_timed_out'})` });
    }
  }
  return read;
}

const tooMuch = `is too much: all included files together may have at most ${bytes.includedFiles / 1024} kB`;
