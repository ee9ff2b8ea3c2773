import { setTimeout as pause } from 'node:timers/promises';
import { holdSeconds } from '../protocol.ts';

/** The requests for work that are being answered, and who gets no more work from this server. */
export interface HeldRequests {
  hold(holder: string): Held;
  /** Ends all of a holder that is known to be gone: what it had must not be given to it again. */
  end(holder: string): void;
  /**
   * From now on this holder gets no more work here; without a holder, nobody does. Resolves when the requests that were
   * being answered have been: what they were given is in the store by then.
   */
  quiet(holder?: string): Promise<void>;
  /** Another runner of this name has come in its place. */
  resume(holder: string): void;
  isQuiet(holder: string): boolean;
  /** Keeps a request for work that is not given out, as long as one that finds none. */
  whileQuiet(signal: AbortSignal): Promise<void>;
  /** The server closes: whoever is held is let go. */
  letGo(): void;
  /** Aborted then. */
  readonly closing: AbortSignal;
}

interface Held extends Disposable {
  readonly isOver: boolean;
}

const lookEveryMs = 10;

export function heldRequests(): HeldRequests {
  const all = new Set<{ holder: string; isOver: boolean }>();
  const quiet = new Set<string>();
  const closing = new AbortController();
  let isForNobody = false;
  const end = (concerned: (holder: string) => boolean): { holder: string }[] => {
    const those = [...all].filter(({ holder }) => concerned(holder));
    for (const held of those) held.isOver = true;
    return those;
  };
  return {
    hold(holder) {
      const held = { holder, isOver: false };
      all.add(held);
      return Object.assign(held, { [Symbol.dispose]: () => void all.delete(held) });
    },
    end: (gone) => void end((holder) => holder === gone),
    async quiet(one) {
      if (one === undefined) isForNobody = true;
      else quiet.add(one);
      const those = end((holder) => one === undefined || holder === one);
      while (those.some((held) => all.has(held as never))) await pause(lookEveryMs);
    },
    resume: (holder) => void quiet.delete(holder),
    isQuiet: (holder) => isForNobody || quiet.has(holder),
    async whileQuiet(signal) {
      const ended = AbortSignal.any([signal, closing.signal]);
      await pause(holdSeconds * 1000, undefined, { signal: ended }).catch(() => {});
    },
    letGo() {
      end(() => true);
      closing.abort();
    },
    closing: closing.signal,
  };
}
