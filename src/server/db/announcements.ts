/** How servers learn of each other's commits. A transaction's topics are sent once it is durable, each topic once. */
export interface Announcements {
  committed(topics: ReadonlySet<string>): void;
  /** Resolves when the announcement was sent or is lost. */
  tellOthers(topic: string): Promise<void>;
  /** `onMissed`: announcements may have been lost, so the listener must read the store itself. */
  listen(onTopic: (topic: string) => void, onMissed?: () => void): () => void;
  close(): Promise<void>;
}

export class Listeners {
  readonly #listeners = new Set<{ onTopic: (topic: string) => void; onMissed: () => void }>();

  add(onTopic: (topic: string) => void, onMissed: () => void = () => {}): () => void {
    const listener = { onTopic, onMissed };
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  notify(topic: string): void {
    for (const { onTopic } of this.#listeners) onTopic(topic);
  }

  miss(): void {
    for (const { onMissed } of this.#listeners) onMissed();
  }
}

export function localAnnouncements(): Announcements {
  const listeners = new Listeners();
  return {
    committed(topics) {
      for (const topic of topics) listeners.notify(topic);
    },
    tellOthers: async () => {},
    listen: (onTopic) => listeners.add(onTopic),
    close: async () => {},
  };
}
