import { stripVTControlCharacters } from 'node:util';
import type { Blobs } from '../db/blobs.ts';
import type { Queries } from '../db/open.ts';
import { findLog, readLog } from '../streams/logs.ts';

/** The end of logs, as plain text: what a terminal would do with it is left out. */

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

/** What is looked at for the last line. */
const lineBytes = 4096;
const longestLine = 240;

/** The last line that a log has with something in it. */
export async function lastLine(storage: Storage, id: bigint): Promise<string> {
  const { text } = await endOf(storage, id, lineBytes);
  const lines = plain(text)
    .split('\n')
    .map((line) => line.trim());
  return (lines.findLast((line) => line !== '') ?? '').slice(0, longestLine);
}

/** Without escape sequences and control characters; of a line that was written over, what is seen of it in the end. */
function plain(text: string): string {
  return stripVTControlCharacters(text)
    .replaceAll(/[^\n]*\r(?!\n|$)/g, '')
    .replaceAll(/[^\P{Cc}\n\t]/gu, '');
}
