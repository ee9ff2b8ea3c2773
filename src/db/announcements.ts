import { carriedBy } from '../lib/carried.ts';
import type { Transaction } from './open.ts';

/** How servers hear of each other's commits. The topics of a transaction are sent when it is durable, each once. */
export interface Announcements {
  announce(trx: Transaction, topic: string): void;
  /** Called when the transaction is durable. */
  committed(trx: Transaction): void;
  /** `missed` is called when announcements may have been lost: the listener must then look in the store itself. */
  listen(heard: (topic: string) => void, missed?: () => void): () => void;
  /**
   * Calls back while the transaction is still running. Where transactions take turns, a transaction begun in the
   * callback gets the next turn, sees the writes, and shares the commit. On other databases it never calls back.
   */
  listenEarly(heard: (topic: string) => void): () => void;
  close(): Promise<void>;
}

/** Listeners of one process. */
export class Listeners {
  readonly #listeners = new Set<{ heard: (topic: string) => void; missed: () => void }>();

  add(heard: (topic: string) => void, missed: () => void = () => {}): () => void {
    const listener = { heard, missed };
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  tell(topic: string): void {
    for (const { heard } of this.#listeners) heard(topic);
  }

  miss(): void {
    for (const { missed } of this.#listeners) missed();
  }
}

/** The topics of a transaction that is still running. */
export const pendingTopics = carriedBy<Transaction, Set<string>>(() => new Set());

/** For SQLite, where all listeners are in this process. */
export function localAnnouncements(): Announcements {
  const listeners = new Listeners();
  const early = new Listeners();
  return {
    announce(trx, topic) {
      pendingTopics(trx).add(topic);
      early.tell(topic);
    },
    committed(trx) {
      for (const topic of pendingTopics(trx)) listeners.tell(topic);
    },
    listen: (heard) => listeners.add(heard),
    listenEarly: (heard) => early.add(heard),
    close: async () => {},
  };
}
