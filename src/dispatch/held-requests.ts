import { findRefused, type Runner } from '../auth/runners.ts';
import type { Database } from '../db/open.ts';
import { ApiError } from '../errors.ts';

/** The requests of runners that are held at the moment. */
export interface HeldRequests {
  hold(runner: Runner, signal: AbortSignal): Held;
  /** Ends all of a holder that is known to be gone: what it had must not be given to it again. */
  end(holder: string): void;
  /** Refuses those whose token became invalid. One query asks for all of them, however many are held. */
  check(): Promise<void>;
  /** Who has a request here. */
  holders(): Iterable<string>;
}

export interface Held extends Disposable {
  /** Aborted when the caller has hung up, and when nothing may be given to it any more. */
  readonly signal: AbortSignal;
  /** Nothing may be given to it any more: its holder is gone, or was refused. */
  readonly isOver: boolean;
  /** Throws for a runner that was refused meanwhile. */
  throwIfRefused(): void;
}

const hungUp = new Error('the caller hung up');

export function heldRequests(db: Pick<Database, 'read' | 'cache'>): HeldRequests {
  const all = new Set<HeldRequest>();
  let checkedAsOf: unknown;
  return {
    hold(runner, signal) {
      const held = new HeldRequest(runner, signal, () => all.delete(held));
      all.add(held);
      return held;
    },
    end(holder) {
      for (const held of all) if (held.runner.holder === holder) held.end('over');
    },
    async check() {
      const hashes = new Set(Array.from(all, ({ runner }) => runner.tokenHash).filter((hash) => hash !== undefined));
      if (hashes.size === 0) return;
      // Without a commit no token became invalid. There is one every few seconds: the visits of those who wait here.
      const { asOf } = await db.cache();
      if (asOf === checkedAsOf) return;
      checkedAsOf = asOf;
      const refused = await findRefused(db.read, hashes);
      if (refused.size === 0) return;
      for (const held of all) if (refused.has(held.runner.tokenHash ?? '')) held.end('refused');
    },
    *holders() {
      for (const { runner } of all) yield runner.holder;
    },
  };
}

class HeldRequest implements Held {
  readonly runner: Runner;
  readonly #ending = new AbortController();
  readonly #caller: AbortSignal;
  readonly #letGo: () => void;
  #end: 'over' | 'refused' | undefined;
  readonly #hangUp = (): void => this.#ending.abort(hungUp);

  constructor(runner: Runner, caller: AbortSignal, letGo: () => void) {
    this.runner = runner;
    this.#caller = caller;
    this.#letGo = letGo;
    caller.addEventListener('abort', this.#hangUp);
    if (caller.aborted) this.#hangUp();
  }

  get signal(): AbortSignal {
    return this.#ending.signal;
  }

  get isOver(): boolean {
    return this.#end !== undefined;
  }

  end(why: 'over' | 'refused'): void {
    this.#end = why;
    this.#ending.abort(hungUp); // an error of its own for each would cost more than all the rest
  }

  throwIfRefused(): void {
    if (this.#end === 'refused') throw new ApiError('unauthorized');
  }

  [Symbol.dispose](): void {
    this.#caller.removeEventListener('abort', this.#hangUp);
    this.#letGo();
  }
}
