import type { Database } from './open.ts';

/**
 * Waiting for announcements. Whoever follows something opens a watch *before* looking at it, looks, and then waits: an
 * announcement between the look and the wait is not missed. A watch also returns after a while without one, because
 * announcements can be lost: what the database says is the truth.
 */
export interface Hub {
  watch(...topics: string[]): Watch;
  close(): void;
}

export interface Watch extends Disposable {
  /** Resolves when one of the topics was announced since the last time, after `ms`, or when the signal says so. */
  changed(ms: number, signal?: AbortSignal): Promise<void>;
}

export function createHub(db: Database): Hub {
  const watches = new Map<string, Set<TopicWatch>>();
  const stop = db.listen((topic) => {
    for (const watch of watches.get(topic) ?? []) watch.announce();
  });
  return {
    watch(...topics) {
      const watch = new TopicWatch(() => {
        for (const topic of topics) {
          const others = watches.get(topic);
          others?.delete(watch);
          if (others?.size === 0) watches.delete(topic);
        }
      });
      for (const topic of topics) watches.set(topic, (watches.get(topic) ?? new Set()).add(watch));
      return watch;
    },
    close: stop,
  };
}

class TopicWatch implements Watch {
  readonly #end: () => void;
  #announced = false;
  #wake: (() => void) | undefined;

  constructor(end: () => void) {
    this.#end = end;
  }

  announce(): void {
    this.#announced = true;
    this.#wake?.();
  }

  async changed(ms: number, signal?: AbortSignal): Promise<void> {
    if (!this.#announced && !signal?.aborted) {
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
    this.#announced = false;
  }

  [Symbol.dispose](): void {
    this.#end();
    this.#wake?.();
  }
}
