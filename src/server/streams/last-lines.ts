import { stripVTControlCharacters } from 'node:util';
import type { Blobs } from '../db/blobs.ts';
import type { Queries } from '../db/open.ts';
import type { BuildRow } from '../db/schema.ts';
import { reportsFailure } from './failures.ts';
import { findLog, readLog } from './logs.ts';

const lineBytes = 4096;
/** A failure is searched only in the end of a log, because a page may show many builds. */
const failureBytes = 32_768;
const longestLine = 240;

type Logged = Pick<BuildRow, 'id' | 'output_from' | 'output_to'>;
type Storage = { db: Queries; blobs: Blobs };

/** The last non-blank line without terminal sequences. After the build, the runner's own lines are skipped. */
export async function lastLine(storage: Storage, build: Logged): Promise<string> {
  return short((await linesAtEnd(storage, build, lineBytes)).at(-1)?.trim());
}

/** The last lines of the output that are not blank. */
export async function lastLines(storage: Storage, build: Logged, most: number): Promise<string[]> {
  return (await linesAtEnd(storage, build, Math.max(lineBytes, most * 256))).slice(-most).map((line) => short(line));
}

/** The first line at the end of the output that reports a failure, or else the last line. */
export async function failureLine(storage: Storage, build: Logged): Promise<string> {
  const lines = await linesAtEnd(storage, build, failureBytes);
  return short((lines.find(reportsFailure) ?? lines.at(-1))?.trim());
}

async function linesAtEnd({ db, blobs }: Storage, build: Logged, size: number): Promise<string[]> {
  const to = build.output_to ?? (await findLog(db, build.id))?.size ?? 0n;
  const [first, near] = [build.output_from ?? 0n, to - BigInt(size)];
  const pieces: Buffer[] = [];
  for await (const piece of readLog(db, blobs, build.id, near > first ? near : first, to)) pieces.push(piece);
  const lines = plain(Buffer.concat(pieces).toString('utf8')).split('\n');
  return lines.map((line) => line.trimEnd()).filter((line) => line !== '');
}

/** A line with carriage returns is cut to its final text. */
function plain(text: string): string {
  return stripVTControlCharacters(text)
    .replaceAll(/[^\n]*\r(?!\n|$)/g, '')
    .replaceAll(/[^\P{Cc}\n\t]/gu, '');
}

function short(line = ''): string {
  return line.slice(0, longestLine).toWellFormed();
}
