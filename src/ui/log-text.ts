import { stripVTControlCharacters } from 'node:util';
import type { Blobs } from '../db/blobs.ts';
import type { Queries } from '../db/open.ts';
import { findLog, readLog } from '../streams/logs.ts';

/** The end of logs as plain text, without terminal sequences. */

interface Storage {
  db: { read: Queries };
  blobs: Blobs;
}

async function endOf({ db: { read }, blobs }: Storage, id: bigint, bytes: number) {
  const { size } = (await findLog(read, id)) ?? { size: 0n };
  const from = size > BigInt(bytes) ? size - BigInt(bytes) : 0n;
  const pieces: Buffer[] = [];
  for await (const piece of readLog(read, blobs, id, from, size)) pieces.push(piece);
  return { text: Buffer.concat(pieces).toString('utf8'), isCut: from > 0n };
}

/** The number of bytes that are read for the last line. */
const lineBytes = 4096;
const longestLine = 240;

/** The last line of a log that is not blank. */
export async function lastLine(storage: Storage, id: bigint): Promise<string> {
  const { text } = await endOf(storage, id, lineBytes);
  const lines = plain(text)
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
