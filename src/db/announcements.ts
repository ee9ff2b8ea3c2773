import type { Transaction } from './open.ts';

/** How servers hear of each other's commits. The topics of a transaction go out when it is durable, each once. */
export interface Announcements {
  announce(trx: Transaction, topic: string): void;
  /** Called when the transaction is durable. */
  committed(trx: Transaction): void;
  listen(heard: (topic: string) => void): () => void;
  /**
   * Calls back while the transaction is still going on. Where transactions take turns, whoever begins one then gets the
   * next turn, sees what was written, and shares the commit. Elsewhere there is nothing to be heard early.
   */
  listenEarly(heard: (topic: string) => void): () => void;
  close(): Promise<void>;
}

/** Listeners of one process. */
export class Listeners {
  readonly #listeners = new Set<(topic: string) => void>();

  add(heard: (topic: string) => void): () => void {
    this.#listeners.add(heard);
    return () => this.#listeners.delete(heard);
  }

  tell(topic: string): void {
    for (const heard of this.#listeners) heard(topic);
  }
}

/** The topics of transactions that are going on. */
export class Pending {
  readonly #topics = new WeakMap<Transaction, Set<string>>();

  add(trx: Transaction, topic: string): void {
    const topics = this.#topics.get(trx) ?? new Set();
    this.#topics.set(trx, topics.add(topic));
  }

  of(trx: Transaction): Iterable<string> {
    return this.#topics.get(trx) ?? [];
  }
}

/** For SQLite, where all who listen are in this process. */
export function localAnnouncements(): Announcements {
  const listeners = new Listeners();
  const early = new Listeners();
  const pending = new Pending();
  return {
    announce(trx, topic) {
      pending.add(trx, topic);
      early.tell(topic);
    },
    committed(trx) {
      for (const topic of pending.of(trx)) listeners.tell(topic);
    },
    listen: (heard) => listeners.add(heard),
    listenEarly: (heard) => early.add(heard),
    close: async () => {},
  };
}

/** As many bytes as one notification of PostgreSQL may carry, and a few to spare. */
const longestMessage = 7000;

export interface Messages {
  /** Says it to all who listen on this database. */
  send(message: string): Promise<unknown>;
  /** What was said by others, and by this process. */
  listen(heard: (message: string) => void): void;
  close(): Promise<void>;
}

/**
 * For PostgreSQL, where servers in other processes listen too. This process hears of its own commits at once. The others
 * are told afterwards, by one message for all that was committed since the last one: a notification inside a transaction
 * would make all of them take turns to be flushed to the disk, because PostgreSQL keeps notifications in the order of the
 * commits. A server that dies between the two has told nobody, which is why whoever listens also looks now and then.
 */
export function sharedAnnouncements(
  messages: Messages,
  speaker: string,
  onLost: (error: Error) => void,
): Announcements {
  const listeners = new Listeners();
  const pending = new Pending();
  const unsaid = new Set<string>();
  let isListening = false;
  let speaking: Promise<void> | undefined;

  const hear = (message: string): void => {
    const [said, ...topics] = message.split('\n');
    if (said !== speaker) for (const topic of topics) listeners.tell(topic);
  };

  const speak = async (): Promise<void> => {
    while (unsaid.size > 0) {
      let message = speaker;
      for (const topic of unsaid) {
        if (message.length + topic.length >= longestMessage) break;
        message += `\n${topic}`;
        unsaid.delete(topic);
      }
      await messages.send(message).catch(onLost); // a hint that is lost costs those who wait for it a second
    }
  };
  const speakSoon = (): void => {
    speaking ??= speak().finally(() => {
      speaking = undefined;
      if (unsaid.size > 0) speakSoon();
    });
  };

  return {
    announce: (trx, topic) => pending.add(trx, topic),
    committed(trx) {
      for (const topic of pending.of(trx)) {
        unsaid.add(topic);
        listeners.tell(topic);
      }
      if (unsaid.size > 0) speakSoon();
    },
    listen(heard) {
      if (!isListening) messages.listen(hear);
      isListening = true;
      return listeners.add(heard);
    },
    listenEarly: () => () => {},
    async close() {
      await speaking;
      await messages.close();
    },
  };
}
