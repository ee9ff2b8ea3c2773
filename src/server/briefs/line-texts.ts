import { bytes } from '../../shared/domain/bounds.ts';
import type { LineIndex, LineStorage } from '../streams/line-index.ts';
import { readLines } from '../streams/lines.ts';
import { readable } from './levelling.ts';

const longestLine = 2000;

/** The lines from `from` to `to`, counted from 0. Fewer if there are no more. */
export async function textsOf(parts: LineStorage, index: LineIndex, from: number, to: number): Promise<string[]> {
  const texts: string[] = [];
  while (from + texts.length < to) {
    const wanted = { from: from + texts.length + 1, limit: to - from - texts.length };
    const { lines } = await readLines(parts, index, { ...wanted, longestLine, longestAnswer: bytes.diffText });
    if (lines.length === 0) break;
    texts.push(...lines.map(({ text }) => readable(text)));
  }
  return texts;
}
