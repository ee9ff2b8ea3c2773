import { setImmediate as nextTurn } from 'node:timers/promises';
import { piecesOf, type Blob } from '../db/blobs.ts';
import { bytes, most } from '../../shared/domain/bounds.ts';
import { createMask } from '../../shared/domain/masking.ts';
import { countBreaks } from '../../shared/lib/count-breaks.ts';
import { siteTypeOf } from '../../shared/lib/file-types.ts';
import type { ArtifactKind, ArtifactView } from '../../shared/records/artifact-view.ts';
import { createReportDecoder } from '../../shared/junit/decoding.ts';
import { createJunitReader } from '../../shared/junit/reader.ts';
import { UnreadableReportError } from '../../shared/junit/unreadable.ts';

/** Enough bytes to tell what a file is. */
export const headBytes = 4096;

const pictures: readonly [type: string, magic: RegExp][] = [
  ['image/png', /^\x89PNG\r\n/],
  ['image/jpeg', /^\xff\xd8\xff/],
  ['image/gif', /^GIF8[79]a/],
  ['image/webp', /^RIFF[^]{4}WEBP/],
  ['image/avif', /^[^]{4}ftypavi[fs]/],
];

export interface Content {
  kind: ArtifactKind;
  /** For a browser that shows it. */
  type: string;
}

/** By its bytes, and for texts also by its name. A name alone makes no picture, and bytes alone make no page. */
export function contentOf(path: string, head: Buffer): Content {
  const start = head.toString('latin1');
  const [picture] = pictures.find(([, magic]) => magic.test(start)) ?? [];
  if (picture !== undefined) return { kind: 'picture', type: picture };
  if (start.startsWith('%PDF-')) return { kind: 'pdf', type: 'application/pdf' };
  if (!isText(head)) return { kind: 'other', type: 'application/octet-stream' };
  const type = siteTypeOf(path);
  if (type === 'text/html' || type === 'application/xhtml+xml') return { kind: 'page', type };
  if (type === 'image/svg+xml' && /<svg[\s>]/.test(start)) return { kind: 'picture', type };
  if (type === 'text/xml' && /<testsuites?[\s/>]/.test(start)) return { kind: 'tests', type };
  return { kind: 'text', type: 'text/plain; charset=utf-8' };
}

/** A log may have escape sequences, and a text of another encoding is still a text. */
function isText(head: Buffer): boolean {
  let strange = 0;
  for (const byte of head) {
    if (byte === 0) return false;
    if ((byte < 0x20 && !(byte >= 7 && byte <= 13) && byte !== 0x1b) || byte === 0x7f) strange += 1;
  }
  return strange * 20 <= head.length;
}

const longestLine = 4096;
export const mostLines = 500;
/** The lines of one answer are in so many bytes. */
const blockBytes = 1024 * 1024;

type TextView = NonNullable<ArtifactView['text']>;

/** A part of the file, and how many lines end in it. */
interface Part {
  at: number;
  size: number;
  breaks: number;
}

/** Lines count from 1. A number behind the last one gives the last lines. */
export async function linesIn(blob: Blob, { from, limit }: { from: number; limit: number }): Promise<TextView> {
  const end = Math.min(blob.size, bytes.shownText);
  const parts: Part[] = [];
  let at = 0;
  let final = lineBreak;
  for await (const piece of piecesOf(blob, 0, end)) {
    parts.push({ at, size: piece.length, breaks: countBreaks(piece) });
    at += piece.length;
    final = piece.at(-1) ?? final;
  }
  const total = parts.reduce((sum, { breaks }) => sum + breaks, 0) + (final === lineBreak ? 0 : 1);
  const first = from > total ? Math.max(1, total - limit + 1) : from;
  const start = await startOf(blob, first, parts);
  const block = await blob.read(start, Math.min(blockBytes, end - start));
  const lines = linesOf(block, start + block.length === end).slice(0, limit);
  return {
    from: first,
    total,
    complete: end === blob.size,
    lines: lines.map((line, index) => ({ number: first + index, ...line })),
  };
}

const lineBreak = 0x0a;

async function startOf(blob: Blob, line: number, parts: readonly Part[]): Promise<number> {
  let before = line - 1;
  for (const { at, size, breaks } of parts) {
    if (before === 0) return at;
    if (before > breaks) {
      before -= breaks;
      continue;
    }
    const piece = await blob.read(at, size);
    for (let index = 0; index < piece.length; index += 1) {
      if (piece[index] === lineBreak && (before -= 1) === 0) return at + index + 1;
    }
  }
  return 0;
}

/** A line that goes on behind the block is for the next page, unless it is the only one. */
function linesOf(block: Buffer, isLast: boolean): { text: string; cut: boolean }[] {
  const lines: { text: string; cut: boolean }[] = [];
  for (let at = 0; at < block.length && lines.length < mostLines;) {
    const found = block.indexOf(lineBreak, at);
    if (found === -1 && !isLast && lines.length > 0) break;
    const to = found === -1 ? block.length : found;
    const cut = to - at > longestLine || (found === -1 && !isLast);
    const text = block.toString('utf8', at, Math.min(to, at + longestLine));
    lines.push({ text: text.replace(/\r$/, ''), cut });
    at = to + 1;
  }
  return lines;
}

/** Reads each piece in a turn of its own. */
const turnBytes = 16 * 1024;

/** Failed tests come first. */
export async function testsIn(blob: Blob): Promise<NonNullable<ArtifactView['tests']>> {
  const counts = { passed: 0, failed: 0, skipped: 0 };
  const kept = { failed: [] as ListedTest[], skipped: [] as ListedTest[], passed: [] as ListedTest[] };
  const decoder = createReportDecoder();
  const reader = createJunitReader(createMask([]), ({ durationMs, ...test }) => {
    counts[test.state] += 1;
    const { name, class: of, suite, file, state, message } = test;
    const listed = { name, class: of, suite, file, state, duration_ms: durationMs, message };
    if (kept[state].length < most.shownTests) kept[state].push(listed);
  });
  const end = Math.min(blob.size, bytes.shownReport);
  let problem = end < blob.size ? 'Only the first megabyte of the report was read.' : '';
  try {
    for await (const piece of piecesOf(blob, 0, end)) {
      for (let at = 0; at < piece.length; at += turnBytes) {
        reader.write(decoder.write(piece.subarray(at, at + turnBytes)));
        await nextTurn();
      }
    }
    reader.write(decoder.end());
    if (problem === '') reader.end();
  } catch (error) {
    if (!(error instanceof UnreadableReportError)) throw error;
    problem ||= `The report could not be read to its end: ${error.message}.`;
  }
  const listed = [...kept.failed, ...kept.skipped, ...kept.passed].slice(0, most.shownTests);
  return { ...counts, problem, listed };
}

type ListedTest = NonNullable<ArtifactView['tests']>['listed'][number];
