import { readFileSync } from 'node:fs';
import { frameReader } from '../shared/domain/file-frames.ts';
import { patternsOf } from '../shared/domain/globs.ts';
import { handOver } from './hand-over.ts';
import { quote } from '../shared/lib/shell-word.ts';
import type { Ended, RunFiles } from './sandbox/types.ts';
import { sourceFile } from '../shared/lib/source-files.ts';

/** Which of a build's files to collect. A sandboxed program reads them (collect-files.pl). The runner opens none. */
export interface Wanted {
  globs: readonly string[];
  mostFiles: number;
  /** Limit on all files together. A file that exceeds the rest of it is skipped as a whole. */
  mostBytes: number;
  /** The number of files that an earlier collection of the same run has delivered already. */
  skip?: number;
  /** Limit on the directory entries to read. */
  mostEntries?: number;
  timeoutMs?: number;
  signal: AbortSignal;
}

export interface CollectedFile {
  /** Below the workspace; without control characters, `.` and `..`. */
  path: string;
  size: number;
  /** Has exactly `size` bytes. Must be read before the next file. */
  content: AsyncIterable<Buffer>;
}

export const leftOutReasons = ['name', 'deep', 'many', 'large', 'link', 'special', 'unreadable'] as const;
export type LeftOutReason = (typeof leftOutReasons)[number];

export interface Collection {
  /** The number of files, including those that `skip` counts. */
  files: number;
  unmatched: string[];
  /** Some of the excluded files, with printable paths. `leftOutCounts` counts all. */
  leftOut: { path: string; reason: LeftOutReason }[];
  leftOutCounts: Partial<Record<LeftOutReason, number>>;
  isPartial: boolean;
  /** Null if the collection is complete. */
  failure: NonNullable<Ended['reason']> | 'failed' | null;
}

const program = ['match-globs.pl', 'collect-files.pl']
  .map((name) => readFileSync(sourceFile(`runner/${name}`), 'utf8'))
  .join('');
const limits = { memoryBytes: 512 * 1024 * 1024, processes: 16 };

/** An error that `take` throws ends the collection, and is thrown here. */
export async function collectFiles(
  left: Pick<RunFiles, 'inspect'>,
  wanted: Wanted,
  take: (file: CollectedFile) => Promise<void>,
): Promise<Collection> {
  const { globs, mostFiles, mostBytes, skip = 0, mostEntries = 1_000_000, timeoutMs = 3_600_000 } = wanted;
  const patterns = patternsOf(globs);
  const values = [skip, mostFiles, mostBytes, mostEntries, ...patterns];
  const over = new AbortController();
  const passage = handOver();
  const running = left
    .inspect({
      // The output is a stream of frames, so error messages must stay out of it.
      command: `exec perl -e ${quote(program)} -- ${values.map((value) => quote(`${value}`)).join(' ')} 2>/dev/null`,
      limits: { ...limits, timeoutMs },
      output: passage.give,
      signal: AbortSignal.any([wanted.signal, over.signal]),
    })
    .finally(passage.end);
  running.catch(() => {}); // thrown below
  const found: Collection = {
    files: skip,
    unmatched: [],
    leftOut: [],
    leftOutCounts: {},
    isPartial: false,
    failure: 'failed',
  };
  try {
    const frames = frameReader(passage.chunks());
    for (let frame = await frames.next(); frame; frame = await frames.next()) {
      switch (frame.letter) {
        case 'F':
          await take({ path: frame.text, size: frame.number, content: frame.content });
          break;
        case 'L': {
          const [, reason, path = ''] = /^(\w+) (.*)$/s.exec(frame.text) ?? [];
          if (isReason(reason)) found.leftOut.push({ path: printable(path), reason });
          break;
        }
        case 'C':
          if (isReason(frame.text)) found.leftOutCounts[frame.text] = frame.number;
          break;
        case 'N':
          found.unmatched.push(globs[frame.number] ?? '');
          break;
        case 'S':
          found.isPartial = true;
          break;
        case 'D':
          found.files = frame.number;
          found.failure = null;
          break;
        default:
          throw new Error('the stream of collected files has an unknown frame');
      }
    }
    const ended = await running;
    if (found.failure !== null) found.failure = ended.reason ?? 'failed';
    return found;
  } finally {
    over.abort();
    passage.discard();
    await running.catch(() => {});
  }
}

function isReason(text: string | undefined): text is LeftOutReason {
  return (leftOutReasons as readonly (string | undefined)[]).includes(text);
}

function printable(path: string): string {
  const shown = path.replaceAll(/[\p{Cc}\p{Cs}\u200e\u200f\u2028-\u202e\u2066-\u2069\ufffd]/gu, '?');
  return shown.length > 200 ? `${shown.slice(0, 200)}…` : shown;
}
