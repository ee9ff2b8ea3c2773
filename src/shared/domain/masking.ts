/*
 * Replaces secrets in a stream of bytes by `[masked]`, in all their forms (secret-forms.ts).
 *
 * Every byte of an occurrence is hidden, also if secrets overlap. All other bytes pass unchanged, valid text or not.
 *
 * A byte is held back only while it can belong to a secret: while the end of the stream is the beginning of a form. So
 * a prompt without a line feed appears at once. No timeout shows held bytes: that would show half a secret when the
 * rest is late.
 */

import { type Automaton, childOf, compileAutomaton } from '../lib/byte-automaton.ts';
import { secretForms, shortestSecret } from './secret-forms.ts';

export interface Mask {
  /** May be shown now. The caller must not write into a chunk again, because they share memory. */
  push(chunk: Buffer): Buffer;
  /** Ends the stream and returns the held bytes. The mask can then be used again. */
  flush(): Buffer;
  /** Independent of the stream. */
  maskText(text: string): string;
}

/** At most as long as the shortest form: output never exceeds its input (`render` relies on that). */
const replacement = Buffer.from('[masked]');
if (replacement.length > shortestSecret) throw new Error('the replacement is longer than the shortest secret');

const nothing = Buffer.alloc(0);

export function createMask(values: Iterable<string>): Mask {
  const forms = secretForms(values);
  if (forms.length === 0) return { push: (chunk) => chunk, flush: () => nothing, maskText: (text) => text };
  const automaton = compileAutomaton(forms);
  const stream = new Masking(automaton);
  return {
    push: (chunk) => stream.push(chunk),
    flush: () => stream.flush(),
    maskText(text) {
      const whole = new Masking(automaton);
      return Buffer.concat([whole.push(Buffer.from(text)), whole.flush()]).toString();
    },
  };
}

/** Positions count from the start of the current chunk. Bytes held back from earlier chunks have negative ones. */
class Masking {
  private readonly automaton: Automaton;
  /** The automaton's node after the last byte. Its prefix is exactly the held bytes. */
  private node = 0;
  /** Matches that are not rendered yet, as start, end, start, end, …: in order, without overlaps. */
  private matches: number[] = [];
  /** Everything before this position is rendered or hidden. */
  private done = 0;

  constructor(automaton: Automaton) {
    this.automaton = automaton;
  }

  push(chunk: Buffer): Buffer {
    const held = this.automaton.prefix(this.node);
    this.scan(chunk);
    const settled = chunk.length - (this.automaton.depth[this.node] as number);
    const untouched = held.length === 0 && this.matches.length === 0;
    if (untouched && settled === chunk.length) return chunk;
    const shown = untouched ? chunk.subarray(0, settled) : this.render(held, chunk, settled);
    this.done = Math.max(this.done, settled) - chunk.length;
    this.matches = this.matches.map((position) => position - chunk.length);
    return shown;
  }

  flush(): Buffer {
    const held = this.automaton.prefix(this.node);
    const shown = this.render(held, nothing, 0);
    this.node = 0;
    this.matches = [];
    this.done = 0;
    return shown;
  }

  private scan(chunk: Buffer): void {
    const { child, sibling, byte, root, fallback, depth, longest, jump, window } = this.automaton;
    const length = chunk.length;
    let node = this.node;
    let at = 0;
    while (at < length) {
      if (node === 0) {
        at = leap(chunk, at, jump, window);
        if (at >= length) break;
      }
      // Step by step, until no match that began here is possible.
      const entry = at;
      while (at < length) {
        const next = chunk[at++] as number;
        let follower = node === 0 ? (root[next] as number) : (child[node] as number);
        while (follower !== 0 && byte[follower] !== next) follower = sibling[follower] as number;
        while (follower === 0 && node !== 0) {
          node = fallback[node] as number;
          follower = childOf(this.automaton, node, next);
        }
        node = follower;
        if (longest[node] !== 0) this.add(at - (longest[node] as number), at);
        if ((depth[node] as number) <= 1 && at - (depth[node] as number) > entry) {
          at -= depth[node] as number;
          node = 0;
          break;
        }
      }
    }
    this.node = node;
  }

  /** `end` is later than all others. Overlapping matches are merged. */
  private add(start: number, end: number): void {
    const { matches } = this;
    let first = start;
    while (matches.length > 0 && (matches.at(-1) as number) > first) {
      matches.pop();
      first = Math.min(first, matches.pop() as number);
    }
    matches.push(first, end);
  }

  /**
   * Renders everything before `settled`, the first position where a later match can begin. A match that began earlier
   * is masked at once. A longer match may still include it, and then only moves `done`.
   */
  private render(held: Buffer, chunk: Buffer, settled: number): Buffer {
    const shown = Buffer.allocUnsafe(held.length + chunk.length);
    let size = 0;
    const show = (from: number, to: number): void => {
      if (from < 0) size += held.copy(shown, size, held.length + from, held.length + Math.min(to, 0));
      if (to > 0) size += chunk.copy(shown, size, Math.max(from, 0), to);
    };
    let next = 0;
    for (; next < this.matches.length && (this.matches[next] as number) <= settled; next += 2) {
      const start = this.matches[next] as number;
      if (start >= this.done) {
        show(this.done, start);
        size += replacement.copy(shown, size);
      }
      this.done = Math.max(this.done, this.matches[next + 1] as number);
    }
    this.matches = this.matches.slice(next);
    if (settled > this.done) show(this.done, settled);
    return shown.subarray(0, size);
  }
}

/** The next position at which a match may begin. It skips most bytes (see `Automaton.jump`). */
function leap(chunk: Buffer, from: number, jump: Uint8Array, window: number): number {
  const last = chunk.length - window;
  let at = from;
  while (at <= last) {
    const far = jump[((chunk[at + window - 2] as number) << 8) | (chunk[at + window - 1] as number)] as number;
    if (far === 0) break;
    at += far;
  }
  return at;
}
