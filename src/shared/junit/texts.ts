import type { Mask } from '../domain/masking.ts';
import { cutBytes } from '../lib/cut-bytes.ts';

/** Masks secrets, then cuts at `most` bytes. In the other order, half a secret at the cut would stay unmasked. */
export class ReportText {
  readonly #mask: Pick<Mask, 'push' | 'flush'>;
  readonly #most: number;
  #kept: Buffer[] = [];
  #size = 0;

  constructor(mask: Pick<Mask, 'push' | 'flush'>, most: number) {
    this.#mask = mask;
    this.#most = most;
  }

  add(piece: string): void {
    if (!this.isFull) this.#keep(this.#mask.push(Buffer.from(piece.toWellFormed())));
  }

  /** Returns the cleaned text, and resets this object. */
  end(clean: (text: string) => string): string {
    const wasFull = this.isFull;
    const held = this.#mask.flush();
    if (!wasFull) this.#keep(held);
    const text = clean(cutBytes(Buffer.concat(this.#kept), this.#most));
    this.#kept = [];
    this.#size = 0;
    return cutBytes(Buffer.from(text), this.#most); // U+FFFD is longer than the bytes that it replaces
  }

  get isFull(): boolean {
    return this.#size > this.#most;
  }

  #keep(bytes: Buffer): void {
    const kept = bytes.subarray(0, this.#most + 1 - this.#size);
    this.#kept.push(Buffer.from(kept)); // a copy: the piece may be large
    this.#size += kept.length;
  }
}

/** Trims a text and replaces control characters by U+FFFD. */
export function asName(text: string): string {
  return text.trim().replaceAll(/\p{Cc}/gu, '\uFFFD');
}

const colours = new RegExp(String.raw`\x1b\[[0-9;]*m`, 'g');

/** Trims a text but keeps its lines. Removes terminal colours, and replaces other control characters by U+FFFD. */
export function asMessage(text: string): string {
  return text
    .replaceAll('\r\n', '\n')
    .replaceAll(colours, '')
    .replaceAll(/[^\P{Cc}\t\n]/gu, '\uFFFD')
    .trim();
}
