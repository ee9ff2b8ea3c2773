/** How servers hear of each other's commits. The topics of a transaction are sent when it is durable, each once. */
export interface Announcements {
  /** Called with the topics of a transaction when it is durable. */
  committed(topics: ReadonlySet<string>): void;
  /** Tells the other servers alone. */
  tellOthers(topic: string): void;
  /** `missed` is called when announcements may have been lost: the listener must then look in the store itself. */
  listen(heard: (topic: string) => void, missed?: () => void): () => void;
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

/** For SQLite, where all listeners are in this process. */
export function localAnnouncements(): Announcements {
  const listeners = new Listeners();
  return {
    committed(topics) {
      for (const topic of topics) listeners.tell(topic);
    },
    tellOthers: () => {},
    listen: (heard) => listeners.add(heard),
    close: async () => {},
  };
}
