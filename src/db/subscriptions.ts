import type { Database } from './open.ts';

/**
 * Waiting for announcements. Whoever follows something opens a watch *before* looking at it, looks, and then waits: an
 * announcement between the look and the wait is not missed. A watch also returns after a while without one, because
 * announcements can be lost: what the database says is the truth.
 */
export interface Subscriptions {
  watch(...topics: string[]): Watch;
  /** The same, but also told of what is about to be committed, where others can still join in. */
  watchEarly(topic: string): Watch;
  close(): void;
}

export interface Watch extends Disposable {
  /**
   * Resolves when one of the topics was announced since the last time, after `ms`, or when the signal says so. Answers
   * whether it was announced, and if so whether that is committed yet.
   */
  changed(ms: number, signal?: AbortSignal): Promise<Heard | undefined>;
}

export type Heard = 'coming' | 'committed';

export function createSubscriptions(db: Database): Subscriptions {
  const watches = new Map<string, Set<TopicWatch>>();
  const stop = db.listen(
    (topic) => {
      for (const watch of watches.get(topic) ?? []) watch.announce('committed');
    },
    () => {
      for (const watch of new Set([...watches.values()].flatMap((some) => [...some]))) watch.announce('committed');
    },
  );
  const stopEarly = db.listenEarly((topic) => {
    for (const watch of watches.get(topic) ?? []) if (watch.hearsEarly) watch.announce('coming');
  });
  const watchOn = (topics: string[], hearsEarly: boolean): Watch => {
    const watch = new TopicWatch(hearsEarly, () => {
      for (const topic of topics) {
        const others = watches.get(topic);
        others?.delete(watch);
        if (others?.size === 0) watches.delete(topic);
      }
    });
    for (const topic of topics) watches.set(topic, (watches.get(topic) ?? new Set()).add(watch));
    return watch;
  };
  return {
    watch: (...topics) => watchOn(topics, false),
    watchEarly: (topic) => watchOn([topic], true),
    close() {
      stop();
      stopEarly();
    },
  };
}

class TopicWatch implements Watch {
  readonly hearsEarly: boolean;
  readonly #end: () => void;
  #heard: Heard | undefined;
  #wake: (() => void) | undefined;

  constructor(hearsEarly: boolean, end: () => void) {
    this.hearsEarly = hearsEarly;
    this.#end = end;
  }

  announce(heard: Heard): void {
    this.#heard = heard;
    this.#wake?.();
  }

  async changed(ms: number, signal?: AbortSignal): Promise<Heard | undefined> {
    if (!this.#heard && !signal?.aborted) {
      const { promise, resolve } = Promise.withResolvers<void>();
      const wake = (): void => resolve();
      const timer = setTimeout(wake, ms);
      this.#wake = wake;
      signal?.addEventListener('abort', wake, { once: true });
      await promise;
      clearTimeout(timer);
      signal?.removeEventListener('abort', wake);
      this.#wake = undefined;
    }
    const heard = this.#heard;
    this.#heard = undefined;
    return heard;
  }

  [Symbol.dispose](): void {
    this.#end();
    this.#wake?.();
  }
}
