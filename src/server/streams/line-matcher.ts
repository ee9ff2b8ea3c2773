import type { RE2JS } from 're2js';
import { longest } from '../../shared/domain/bounds.ts';
import { compiles, engine } from '../../shared/domain/rule-expressions.ts';
import { countBreaks } from '../../shared/lib/count-breaks.ts';
import { requiredTexts, type Required } from './required-text.ts';

/** Limit per line: an expression may take microseconds per character. */
export const longestSearched = 64 * 1024;

export function isExpression(text: string): boolean {
  return text.length <= longest.expression && compiles(text);
}

export interface MatchedLine {
  /** Counted from 0 among the searched lines. */
  line: number;
  start: number;
  end: number;
  /** Matches in the visible text of the line: start, end, start, end. */
  ranges: number[];
}

const mostRanges = 20;
/** Each range may take as long as the whole line, so the search for ranges stops after this time. */
const rangesMs = 500;
const lineBreak = 0x0a;
const escape = 0x1b;

/** Searches the visible text, without terminal sequences. */
export class LineMatcher {
  readonly #expression: RE2JS;
  readonly #required: Required | undefined;
  readonly #texts: Buffer[];

  constructor(expression: string) {
    this.#expression = engine().compile(expression);
    this.#required = requiredTexts(expression);
    const folded = (text: string): string => (this.#required?.ignoresCase ? text.toLowerCase() : text);
    this.#texts = (this.#required?.texts ?? []).map((text) => Buffer.from(folded(text)));
  }

  /** Stops after `limit` matching lines, or when `isOver`. Then `searched` is the number of lines so far. */
  search(bytes: Buffer, limit: number, isOver: () => boolean): { found: MatchedLine[]; searched: number | undefined } {
    const { text, rawAt } = withoutSequences(bytes);
    const found: MatchedLine[] = [];
    const candidates = new Candidates(text, this.#needles(text), this.#required?.ignoresCase ?? false);
    let [line, counted] = [0, 0];
    for (let at = candidates.next(0); at < text.length; at = candidates.next(at)) {
      const start = at === 0 ? 0 : text.lastIndexOf(lineBreak, at - 1) + 1;
      const next = text.indexOf(lineBreak, at);
      const end = next < 0 ? text.length : next;
      line += countBreaks(text.subarray(counted, start));
      counted = start;
      const seen = text.toString('utf8', start, Math.min(end, start + longestSearched));
      if (this.#required?.isAll === true || this.#expression.test(seen)) {
        const [from, to] = [rawAt(start), bytes.indexOf(lineBreak, rawAt(start))];
        found.push({ line, start: from, end: to < 0 ? bytes.length : to, ranges: this.#ranges(seen) });
        if (found.length >= limit) return { found, searched: line + 1 };
      }
      at = end + 1;
      if (isOver()) return { found, searched: line + 1 };
    }
    return { found, searched: undefined };
  }

  /** If case is ignored, two non-ASCII letters equal ASCII letters. If the text has one, the needles prove nothing. */
  #needles(text: Buffer): Buffer[] {
    if (!this.#required?.ignoresCase) return this.#texts;
    return text.includes('\u212a') || text.includes('\u017f') ? [] : this.#texts;
  }

  #ranges(seen: string): number[] {
    const ranges: number[] = [];
    const matcher = this.#expression.matcher(seen);
    const until = performance.now() + rangesMs;
    while (ranges.length < 2 * mostRanges && matcher.find()) {
      ranges.push(matcher.start(), matcher.end());
      if (performance.now() > until) break;
    }
    return ranges;
  }
}

/** The lines worth checking, in order. Without needles, every line is. */
class Candidates {
  readonly #text: Buffer;
  readonly #needles: Buffer[];
  readonly #places: number[];

  constructor(text: Buffer, needles: Buffer[], ignoresCase: boolean) {
    this.#text = ignoresCase && needles.length > 0 ? lowered(text) : text;
    this.#needles = needles;
    this.#places = needles.map(() => -1);
  }

  next(from: number): number {
    if (this.#needles.length === 0) return from;
    let first = this.#text.length;
    for (const [index, needle] of this.#needles.entries()) {
      let place = this.#places[index] ?? -1;
      if (place < from) {
        const found = this.#text.indexOf(needle, from);
        place = this.#places[index] = found < 0 ? Infinity : found;
      }
      if (place < first) first = place;
    }
    return first;
  }
}

function lowered(text: Buffer): Buffer {
  const copy = Buffer.allocUnsafe(text.length);
  for (let at = 0; at < text.length; at += 1) {
    const byte = text[at] as number;
    copy[at] = byte >= 0x41 && byte <= 0x5a ? byte | 0x20 : byte;
  }
  return copy;
}

export function visibleText(bytes: Buffer): Buffer {
  return withoutSequences(bytes).text;
}

/** Never removes a line break. */
function withoutSequences(bytes: Buffer): { text: Buffer; rawAt: (at: number) => number } {
  let next = bytes.indexOf(escape);
  if (next < 0) return { text: bytes, rawAt: (at) => at };
  const text = Buffer.allocUnsafe(bytes.length);
  // From `seen[n]` on in the text, positions in the input are `left[n]` bytes further.
  const seen: number[] = [0];
  const left: number[] = [0];
  let [length, at] = [0, 0];
  while (next >= 0) {
    length += bytes.copy(text, length, at, next);
    at = endOfSequence(bytes, next);
    seen.push(length);
    left.push(at - length);
    next = at < bytes.length && bytes[at] === escape ? at : bytes.indexOf(escape, at);
  }
  length += bytes.copy(text, length, at);
  const rawAt = (place: number): number => {
    let [low, high] = [0, seen.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      // A line begins before its leading sequences.
      if ((seen[middle] as number) < place) low = middle;
      else high = middle - 1;
    }
    return place + (left[low] as number);
  };
  return { text: text.subarray(0, length), rawAt };
}

const longestSequence = 4096;

function endOfSequence(bytes: Buffer, start: number): number {
  const kind = bytes[start + 1];
  const most = Math.min(bytes.length, start + longestSequence);
  if (kind === 0x5b /* [ */) {
    let at = start + 2;
    while (at < most && (bytes[at] as number) >= 0x20 && (bytes[at] as number) < 0x40) at += 1;
    return at < most && (bytes[at] as number) >= 0x40 && (bytes[at] as number) < 0x7f ? at + 1 : at;
  }
  if (kind === 0x5d /* ] */) {
    for (let at = start + 2; at < most && bytes[at] !== lineBreak; at += 1) {
      if (bytes[at] === 0x07) return at + 1;
      if (bytes[at] === escape) return bytes[at + 1] === 0x5c ? at + 2 : at;
    }
    return start + 2;
  }
  return kind === undefined || kind === lineBreak ? start + 1 : start + 2;
}
