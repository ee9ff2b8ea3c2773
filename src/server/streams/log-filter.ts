import type { Required } from './required-text.ts';

/*
 * A log's filter is a set of hashes (a Bloom filter with one hash): of all sequences of three bytes in its visible text,
 * in lower case. If it lacks a sequence of a text, the log does not contain the text, and a search need not read it.
 */

const largestBits = 20;
const smallestBits = 9;
/** A fuller filter would let too many logs through. */
const fullest = 1 / 4;

export type Filter = Uint32Array<ArrayBuffer>;

export const emptyFilter = (): Filter => new Uint32Array(2 ** (largestBits - 5));

const folded = Uint8Array.from({ length: 256 }, (_, byte) => (byte >= 0x41 && byte <= 0x5a ? byte | 0x20 : byte));

/** Without case, these letters equal k and s. */
const oddLetters = ['\u212a', '\u017f'];
/** In upper case, so no text has it. */
const oddSequence = 0x4b4b4b;

function hashOf(sequence: number): number {
  return Math.imul(sequence, 0x9e3779b1) >>> (32 - largestBits);
}

export function addToFilter(filter: Filter, text: Buffer): void {
  let sequence = 0;
  for (let at = 0, { length } = text; at < length; at += 1) {
    sequence = ((sequence << 8) | (folded[text[at] as number] as number)) & 0xffffff;
    const hash = hashOf(sequence);
    filter[hash >>> 5] = (filter[hash >>> 5] as number) | (1 << (hash & 31));
  }
  if (!oddLetters.some((letter) => text.includes(letter))) return;
  const hash = hashOf(oddSequence);
  filter[hash >>> 5] = (filter[hash >>> 5] as number) | (1 << (hash & 31));
}

/** As small as it may be: a half is joined with the other, so that the last bits of a hash are its position. */
export function packFilter(filter: Filter): Buffer {
  let packed = filter;
  while (packed.length > 2 ** (smallestBits - 5)) {
    const half = packed.slice(0, packed.length / 2);
    for (let at = 0; at < half.length; at += 1) half[at] = (half[at] as number) | (packed[half.length + at] as number);
    if (shareOfBits(half) > fullest) break;
    packed = half;
  }
  const bytes = Buffer.alloc(packed.length * 4);
  for (let at = 0; at < packed.length; at += 1) bytes.writeUInt32LE(packed[at] as number, at * 4);
  return bytes;
}

function shareOfBits(words: Filter): number {
  let count = 0;
  for (let at = 0; at < words.length; at += 1) {
    const word = words[at] as number;
    const pairs = word - ((word >>> 1) & 0x55555555);
    const nibbles = (pairs & 0x33333333) + ((pairs >>> 2) & 0x33333333);
    count += Math.imul((nibbles + (nibbles >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24;
  }
  return count / (words.length * 32);
}

/** Tells whether a log may contain one of the texts. */
export function createFilterTest(required: Required | undefined): (packed: Uint8Array | null) => boolean {
  const texts = required?.texts.map((text) => sequencesOf(Buffer.from(text)));
  return (packed) => {
    if (!texts || packed === null) return true;
    const has = (sequence: number): boolean => {
      const position = hashOf(sequence) & (packed.length * 8 - 1);
      return (((packed[position >>> 3] as number) >>> (position & 7)) & 1) === 1;
    };
    if (required?.ignoresCase === true && has(oddSequence)) return true;
    return texts.some((sequences) => sequences.every(has));
  };
}

function sequencesOf(text: Buffer): number[] {
  const sequences: number[] = [];
  let sequence = 0;
  for (const [at, byte] of text.entries()) {
    sequence = ((sequence << 8) | (folded[byte] as number)) & 0xffffff;
    if (at >= 2) sequences.push(sequence);
  }
  return sequences;
}
