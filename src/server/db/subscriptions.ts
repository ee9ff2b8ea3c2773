import type { Database } from './open.ts';

/**
 * Open a watch *before* you read, then read, then wait. So no announcement is missed in between. Announcements can be
 * lost, so a watch also returns after a while without one.
 */
export interface Subscriptions {
  watch(...topics: string[]): Watch;
  close(): void;
}

export interface Watch extends Disposable {
  /** Resolves on a topic announced since the last call, after `ms`, or when the signal is aborted. */
  changed(ms: number, signal?: AbortSignal): Promise<void>;
}

export function createSubscriptions(db: Database): Subscriptions {
  const watches = new Map<string, Set<TopicWatch>>();
  const stop = db.listen(
    (topic) => {
      for (const watch of watches.get(topic) ?? []) watch.announce();
    },
    () => {
      for (const watch of new Set([...watches.values()].flatMap((some) => [...some]))) watch.announce();
    },
  );
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
  #isHeard = false;
  #wake: (() => void) | undefined;

  constructor(end: () => void) {
    this.#end = end;
  }

  announce(): void {
    this.#isHeard = true;
    this.#wake?.();
  }

  async changed(ms: number, signal?: AbortSignal): Promise<void> {
    if (!this.#isHeard && !signal?.aborted) {
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
    this.#isHeard = false;
  }

  [Symbol.dispose](): void {
    this.#end();
    this.#wake?.();
  }
}
