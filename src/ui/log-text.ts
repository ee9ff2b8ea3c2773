import { stripVTControlCharacters } from 'node:util';
import type { Blobs } from '../db/blobs.ts';
import type { Queries } from '../db/open.ts';
import type { BuildRow } from '../db/schema.ts';
import { findLog, readLog } from '../streams/logs.ts';

/** The end of logs as plain text, without terminal sequences. */

interface Storage {
  db: { read: Queries };
  blobs: Blobs;
}

type Ended = Pick<BuildRow, 'id' | 'output_from' | 'output_to'>;

async function endOf({ db: { read }, blobs }: Storage, { id, output_from, output_to }: Ended): Promise<string> {
  const to = output_to ?? (await findLog(read, id))?.size ?? 0n;
  const [first, near] = [output_from ?? 0n, to - BigInt(lineBytes)];
  const pieces: Buffer[] = [];
  for await (const piece of readLog(read, blobs, id, near > first ? near : first, to)) pieces.push(piece);
  return Buffer.concat(pieces).toString('utf8');
}

/** The number of bytes that are read for the last line. */
const lineBytes = 4096;
const longestLine = 240;

/**
 * The last line that a build said and that is not blank. What the runner itself wrote around it, such as that the cache
 * was saved, does not count once the build is over.
 */
export async function lastLine(storage: Storage, build: Ended): Promise<string> {
  const lines = plain(await endOf(storage, build))
    .split('\n')
    .map((line) => line.trim());
  return (lines.findLast((line) => line !== '') ?? '').slice(0, longestLine);
}

/** Without escape sequences and control characters. Of a line with carriage returns, only the final text. */
function plain(text: string): string {
  return stripVTControlCharacters(text)
    .replaceAll(/[^\n]*\r(?!\n|$)/g, '')
    .replaceAll(/[^\P{Cc}\n\t]/gu, '');
}
