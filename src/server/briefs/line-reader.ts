import { hashOfLine, hashOfSpan, longestCompared, readable } from './levelling.ts';

/** Characters of a line that is shown. */
export const longestShown = 2000;

/** Lines in a piece of a log. Most are hashed where they are, without becoming texts of their own. */
export class LineReader {
  readonly #bytes: Buffer;
  /** One character for each byte. */
  readonly #text: string;
  readonly starts: number[] = [];

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
    this.#text = bytes.toString('latin1');
    for (let at = 0; at < bytes.length;) {
      this.starts.push(at);
      const end = this.#text.indexOf('\n', at);
      at = end < 0 ? bytes.length : end + 1;
    }
  }

  get count(): number {
    return this.starts.length;
  }

  /** 0 for a blank line. */
  hash(index: number): number {
    const [from, to] = this.#span(index);
    return hashOfSpan(this.#text, from, to) ?? hashOfLine(this.#readable(from, to, longestCompared));
  }

  text(index: number): string {
    return this.#readable(...this.#span(index), longestShown);
  }

  #readable(from: number, to: number, most: number): string {
    // Only the end of a long line may be visible, so its beginning is searched for what was written over it.
    const start = to - from > 64 * most ? Math.max(from, this.#bytes.lastIndexOf(13, to - 2) + 1) : from;
    return readable(this.#bytes.toString('utf8', start, Math.min(to, start + 64 * most)))
      .slice(0, most)
      .toWellFormed();
  }

  #span(index: number): [number, number] {
    const from = this.starts[index] as number;
    const next = this.starts[index + 1];
    if (next !== undefined) return [from, next - 1];
    const { length } = this.#bytes;
    return [from, this.#bytes[length - 1] === 10 ? length - 1 : length];
  }
}
