import type { Database } from './open.ts';

/**
 * Waiting for announcements. A reader opens a watch *before* it reads, reads, and then waits: so it does not miss an
 * announcement between the read and the wait. A watch also returns after a while without an announcement, because
 * announcements can be lost and only the database is authoritative.
 */
export interface Subscriptions {
  watch(...topics: string[]): Watch;
  /** The same, but also hears of commits that are about to happen, while others can still join them. */
  watchEarly(topic: string): Watch;
  close(): void;
}

export interface Watch extends Disposable {
  /**
   * Resolves when one of the topics was announced since the last call, after `ms`, or when the signal is aborted.
   * Returns whether there was an announcement, and whether its transaction is committed yet.
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
