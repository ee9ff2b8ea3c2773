/** How servers hear of each other's commits. The topics of a transaction are sent when it is durable, each once. */
export interface Announcements {
  /** Called with the topics of a transaction when it is durable. */
  committed(topics: ReadonlySet<string>): void;
  /** Tells the other servers alone. */
  tellOthers(topic: string): void;
  /** `onMissed` is called when announcements may have been lost: the listener must then look in the store itself. */
  listen(onTopic: (topic: string) => void, onMissed?: () => void): () => void;
  close(): Promise<void>;
}

/** Listeners of one process. */
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

/** For SQLite, where all listeners are in this process. */
export function localAnnouncements(): Announcements {
  const listeners = new Listeners();
  return {
    committed(topics) {
      for (const topic of topics) listeners.notify(topic);
    },
    tellOthers: () => {},
    listen: (onTopic) => listeners.add(onTopic),
    close: async () => {},
  };
}
