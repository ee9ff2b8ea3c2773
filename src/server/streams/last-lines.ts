import { stripVTControlCharacters } from 'node:util';
import type { Blobs } from '../db/blobs.ts';
import type { Queries } from '../db/open.ts';
import type { BuildRow } from '../db/schema.ts';
import { findLog, readLog } from './logs.ts';

const longestLine = 240;
const bytesPerLine = 256;

/** The last non-blank lines, without terminal sequences. After the build, the runner's own lines are skipped. */
export async function lastLines(
  { db, blobs }: { db: Queries; blobs: Blobs },
  build: Pick<BuildRow, 'id' | 'output_from' | 'output_to'>,
  most: number,
): Promise<string[]> {
  const to = build.output_to ?? (await findLog(db, build.id))?.size ?? 0n;
  const [first, near] = [build.output_from ?? 0n, to - BigInt(Math.max(4096, most * bytesPerLine))];
  const pieces: Buffer[] = [];
  for await (const piece of readLog(db, blobs, build.id, near > first ? near : first, to)) pieces.push(piece);
  return plain(Buffer.concat(pieces).toString('utf8'))
    .split('\n')
    .map((line) => line.trimEnd().slice(0, longestLine).toWellFormed())
    .filter((line) => line.trim() !== '')
    .slice(-most);
}

/** A line with carriage returns is cut to its final text. */
function plain(text: string): string {
  return stripVTControlCharacters(text)
    .replaceAll(/[^\n]*\r(?!\n|$)/g, '')
    .replaceAll(/[^\P{Cc}\n\t]/gu, '');
}
