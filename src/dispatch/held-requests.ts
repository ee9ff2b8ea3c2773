import { setTimeout as pause } from 'node:timers/promises';
import { findStandings, type Runner } from '../auth/runners.ts';
import type { Database } from '../db/open.ts';
import { ApiError } from '../errors.ts';
import { holdSeconds } from '../protocol/index.ts';

/** The requests of runners that are being answered, and the runners that get no more work from this server. */
export interface HeldRequests {
  /** `name` is the claim of a request for work; other requests have none. */
  hold(runner: Runner, caller?: AbortSignal, name?: string): Held;
  /** Ends all requests of a holder that is known to have ended: it must not get its lost jobs again. */
  end(holder: string): void;
  /** Ends a holder's requests for work under these claims: it takes no more. */
  leave(holder: string, names: readonly string[]): void;
  /**
   * Refuses requests whose token became invalid, and ends requests for work of drained runners. One query serves all
   * held requests.
   */
  check(): Promise<void>;
  /** The holders of the requests. */
  holders(): Iterable<string>;
  /**
   * From now on this holder gets no more work here; without a holder, no runner does. Resolves when the requests that
   * were being answered are answered: the orders that they got are in the store by then.
   */
  quiet(holder?: string): Promise<void>;
  /** A new runner has this name now. */
  resume(holder: string): void;
  isQuiet(holder: string): boolean;
  /** Holds a request for a while, without giving it work. */
  whileQuiet(signal: AbortSignal): Promise<void>;
  /** The server closes: all held requests end. */
  letGo(): void;
}

type End = 'over' | 'refused' | 'drained';

export interface Held extends Disposable {
  /** Aborted when the caller has hung up, and when the request was ended here. */
  readonly signal: AbortSignal;
  /** Whether it was ended here: it must not be given an order any more. */
  readonly isOver: boolean;
  /** Whether it was ended because its runner is drained. */
  readonly isDrained: boolean;
  end(why: End): void;
  /** Throws if the runner was refused meanwhile. */
  throwIfRefused(): void;
}

const hungUp = new Error('the caller hung up');
const never = new AbortController().signal;
/** A runner may ask again at once although it is to end: this long it is held first. */
const drainedAfterMs = 1000;

export function heldRequests(db: Pick<Database, 'read'>): HeldRequests {
  const all = new Set<HeldRequest>();
  const quiet = new Set<string>();
  const closing = new AbortController();
  let isForNobody = false;
  const end = (concerned: (held: HeldRequest) => boolean): HeldRequest[] => {
    const those = [...all].filter((held) => concerned(held));
    for (const held of those) held.end('over');
    return those;
  };
  return {
    hold(runner, caller = never, name = '') {
      const held = new HeldRequest(runner, name, caller, () => all.delete(held));
      all.add(held);
      if (closing.signal.aborted) held.end('over');
      return held;
    },
    end: (gone) => void end(({ runner }) => runner.holder === gone),
    leave: (holder, names) => void end((held) => held.runner.holder === holder && names.includes(held.name)),
    async check() {
      const those = [...all].filter(({ runner }) => runner.tokenHash !== undefined);
      if (those.length === 0) return;
      const standings = await findStandings(db.read);
      for (const held of those) {
        const standing = standings.get(held.runner.tokenHash ?? '');
        if (!standing) held.end('refused');
        else if (standing.isDraining && held.name !== '' && held.age >= drainedAfterMs) held.end('drained');
      }
    },
    *holders() {
      for (const { runner } of all) yield runner.holder;
    },
    async quiet(one) {
      if (one === undefined) isForNobody = true;
      else quiet.add(one);
      const those = end(({ runner }) => one === undefined || runner.holder === one);
      await Promise.all(those.map((held) => held.answered()));
    },
    resume: (holder) => void quiet.delete(holder),
    isQuiet: (holder) => isForNobody || quiet.has(holder),
    async whileQuiet(signal) {
      const ended = AbortSignal.any([signal, closing.signal]);
      await pause(holdSeconds * 1000, undefined, { signal: ended }).catch(() => {});
    },
    letGo() {
      closing.abort();
      end(() => true);
    },
  };
}

class HeldRequest implements Held {
  readonly runner: Runner;
  readonly name: string;
  readonly #since = performance.now();
  readonly #ending = new AbortController();
  readonly #caller: AbortSignal;
  readonly #letGo: () => void;
  #end: End | undefined;
  #isAnswered = false;
  #answered: PromiseWithResolvers<void> | undefined;
  readonly #hangUp = (): void => this.#ending.abort(hungUp);

  constructor(runner: Runner, name: string, caller: AbortSignal, letGo: () => void) {
    this.runner = runner;
    this.name = name;
    this.#caller = caller;
    this.#letGo = letGo;
    caller.addEventListener('abort', this.#hangUp);
    if (caller.aborted) this.#hangUp();
  }

  get age(): number {
    return performance.now() - this.#since;
  }

  get signal(): AbortSignal {
    return this.#ending.signal;
  }

  get isOver(): boolean {
    return this.#end !== undefined;
  }

  get isDrained(): boolean {
    return this.#end === 'drained';
  }

  end(why: End): void {
    this.#end ??= why;
    this.#ending.abort(hungUp); // a new error for each request would cost more than all the rest
  }

  throwIfRefused(): void {
    if (this.#end === 'refused') throw new ApiError('unauthorized');
  }

  /** Resolves when the answer is known, which may be an order. */
  async answered(): Promise<void> {
    if (this.#isAnswered) return;
    this.#answered ??= Promise.withResolvers();
    await this.#answered.promise;
  }

  [Symbol.dispose](): void {
    this.#isAnswered = true;
    this.#answered?.resolve();
    this.#caller.removeEventListener('abort', this.#hangUp);
    this.#letGo();
  }
}
