import { countBreaks } from '../../shared/lib/count-breaks.ts';
import { TextStyle } from '../../shared/lib/text-styles.ts';

/* Reads text in arbitrary pieces. Every byte of every log is read here, so it searches for the few relevant bytes. */

export interface Scan {
  readonly breaks: number;
  readonly isOpen: boolean;
  readonly style: string;
  /** The line that opened the current group; 0 for none. */
  readonly group: number;
  /** The end of the text, if a sequence or a group's mark may begin there. */
  readonly tail: string;
  /** Whether the tail is the whole line so far. */
  readonly isHead: boolean;
}

export const beginning: Scan = { breaks: 0, isOpen: false, style: '', group: 0, tail: '', isHead: true };

const escape = 0x1b;
const lineBreak = 0x0a;
/** Beginnings of sequences and marks are at most this long. */
const longestTail = 64;

const opening = ['::group::', '--- '] as const;
const closing = '::endgroup::';

export function scan(before: Scan, bytes: Buffer): Scan {
  if (bytes.length === 0) return before;
  const breaks = before.breaks + countBreaks(bytes);
  const isOpen = bytes[bytes.length - 1] !== lineBreak;
  const isHead = before.tail === '' ? !before.isOpen : before.isHead;
  if (before.tail === '') return { breaks, isOpen, ...seen(before, bytes, isHead), ...tailOf(bytes, isHead) };
  // A sequence or mark begun in the tail ends soon. Reading it twice, with the tail and in the bytes, changes nothing.
  const joint = Buffer.concat([Buffer.from(before.tail, 'latin1'), bytes.subarray(0, 2 * longestTail)]);
  const joined = seen(before, joint, isHead);
  if (bytes.length <= 2 * longestTail) return { breaks, isOpen, ...joined, ...tailOf(joint, isHead) };
  return { breaks, isOpen, ...seen({ ...before, ...joined }, bytes, false), ...tailOf(bytes, false) };
}

function seen(before: Scan, text: Buffer, isHead: boolean): Pick<Scan, 'style' | 'group'> {
  return { style: styleAfter(before.style, text), group: groupAfter(before, text, isHead) };
}

/** Counts from 1. Returns -1 if there are fewer line breaks. */
export function findBreak(bytes: Buffer, number: number): number {
  let left = number;
  for (let start = 0; start < bytes.length; start += 4096) {
    const part = bytes.subarray(start, start + 4096);
    const breaks = countBreaks(part);
    if (breaks < left) {
      left -= breaks;
      continue;
    }
    for (let at = 0; at < part.length; at += 1) {
      if (part[at] === lineBreak && (left -= 1) === 0) return start + at;
    }
  }
  return -1;
}

function styleAfter(before: string, text: Buffer): string {
  if (!text.includes(escape)) return before;
  const reset = Math.max(text.lastIndexOf('\x1b[0m'), text.lastIndexOf('\x1b[m'));
  const style = new TextStyle(reset < 0 ? before : '');
  const { length } = text;
  // Byte by byte: there may be as many sequences as bytes, and a search for each would cost more than it skips.
  for (let at = text.indexOf(escape, Math.max(reset, 0)); at < length; at += 1) {
    if (text[at] !== escape) continue;
    const end = endOfParameters(text, at);
    if (end < length && text[end] === 0x6d /* m */) style.change(text, at + 2, end);
  }
  return style.toString();
}

/** The end of the parameters of the control sequence that begins here. The end of the text if they may continue. */
function endOfParameters(text: Buffer, start: number): number {
  if (start + 1 < text.length && text[start + 1] !== 0x5b /* [ */) return start;
  const most = Math.min(text.length, start + longestTail);
  let at = start + 2;
  while (at < most && isParameter(text[at] as number)) at += 1;
  return at >= text.length ? text.length : at;
}

function isParameter(byte: number): boolean {
  return byte >= 0x30 && byte <= 0x3b;
}

function groupAfter(before: Scan, text: Buffer, isHead: boolean): number {
  if (!mayHaveGroups(text, isHead)) return before.group;
  const opened = Math.max(...opening.map((word) => lastLineWith(text, word, isHead)));
  const closed = lastLineWith(text, closing, isHead);
  if (opened < 0 && closed < 0) return before.group;
  return opened < closed ? 0 : before.breaks + countBreaks(text.subarray(0, opened)) + 1;
}

/** A forward search shows in a tenth of the time that most texts have no groups. Dashes are rarer than line breaks. */
function mayHaveGroups(text: Buffer, isHead: boolean): boolean {
  if (isHead && (text[0] === 0x3a || text[0] === 0x2d)) return true;
  return text.includes('\n::') || (text.includes('--- ') && text.includes('\n--- '));
}

function lastLineWith(text: Buffer, word: string, isHead: boolean): number {
  const found = text.lastIndexOf(`\n${word}`);
  if (found >= 0) return found + 1;
  return isHead && text.toString('latin1', 0, word.length) === word ? 0 : -1;
}

function tailOf(text: Buffer, isHead: boolean): Pick<Scan, 'tail' | 'isHead'> {
  const last = text.lastIndexOf(lineBreak);
  const hasLine = last >= 0 || isHead;
  const line = last + 1;
  if (hasLine && text.length - line <= longestTail) return { tail: text.toString('latin1', line), isHead: true };
  const from = text.length - longestTail;
  const begun = text.lastIndexOf(escape);
  const isUnfinished = begun >= from && endOfParameters(text, begun) === text.length;
  return { tail: isUnfinished ? text.toString('latin1', begun) : '', isHead: false };
}

/** Empty in the usual case, after a line break. */
export function packScan({ isOpen, style, group, tail, isHead }: Scan): string {
  if (!isOpen && style === '' && group === 0) return '';
  return JSON.stringify([isOpen ? 1 : 0, style, group, tail, isHead ? 1 : 0]);
}

export function unpackScan(breaks: number, packed: string): Scan {
  if (packed === '') return { ...beginning, breaks };
  const [isOpen, style, group, tail, isHead] = JSON.parse(packed) as [number, string, number, string, number];
  return { breaks, isOpen: isOpen === 1, style, group, tail, isHead: isHead === 1 };
}
