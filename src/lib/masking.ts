/*
 * Replaces secrets in a stream of bytes by `[masked]`, in all their forms (secret-forms.ts).
 *
 * Every byte that belongs to any occurrence of any form is hidden: where two secrets overlap, both disappear
 * whole, under one `[masked]`; a secret that begins with another one hides all of itself. All other bytes pass
 * unchanged, valid text or not.
 *
 * A byte is held back only while it can still turn out to belong to a secret, which is while the end of what has
 * come so far is the beginning of a form. A prompt without a line feed therefore appears at once. What is held back
 * comes with later bytes or with the end of the stream, never after a time: half a secret shown because its other
 * half was late is half a secret shown.
 */

import { type Automaton, childOf, compileAutomaton } from './byte-automaton.ts';
import { secretForms, shortestSecret } from './secret-forms.ts';

export interface Mask {
  /**
   * What may be shown now. It can be a part of the chunk's own memory (the chunk itself where nothing was
   * hidden), so the caller must not write into a chunk again.
   */
  push(chunk: Buffer): Buffer;
  /** The end of the stream: what was held back. The mask then is as new. */
  flush(): Buffer;
  /** A whole text at once, apart from the stream. */
  maskText(text: string): string;
}

/** As long as the shortest form, or shorter: output is never longer than what it replaces (`render` counts on it). */
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

/** Positions count from the start of the current chunk; bytes held back from earlier chunks have negative ones. */
class Masking {
  private readonly automaton: Automaton;
  /** The automaton's node after the last byte. Its prefix is exactly what is held back, so nothing else is kept. */
  private node = 0;
  /** Matches that are not rendered yet, as start, end, start, end, …: in order, none overlapping another. */
  private matches: number[] = [];
  /** Everything before this position is rendered, or hidden by a `[masked]` that is. */
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
      // Step by step, until no match that began here is possible any more.
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

  /** A match that ends at `end`, later than any before it. Those that it overlaps become one with it. */
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
   * Everything before `settled`, where no later match can begin any more. A match that began before it is masked
   * at once, though a longer one may yet swallow it: that one only moves `done`.
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

/** The next position at which a match may begin, found without looking at most bytes (see `Automaton.jump`). */
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
