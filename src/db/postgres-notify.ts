import { setTimeout as pause } from 'node:timers/promises';
import type { Client } from 'pg';
import { randomName } from '../lib/random-name.ts';
import { Listeners, Pending, type Announcements } from './announcements.ts';
import { Neighbours, sayEveryMs } from './neighbours.ts';
import { messageOf } from './postgres-driver.ts';
import type { Reach } from './reach.ts';

const channel = 'headrace';
/** As many bytes as one notification may carry, and some to spare. */
const longestMessage = 7000;
/** Nobody waits for it to be on the disk: it is worth nothing any more after a crash. */
const notify = `select set_config('synchronous_commit', 'off', true), pg_notify('${channel}', $1)`;

export interface NotifyAnnouncements extends Announcements {
  /** Whether what is announced at this moment is heard. */
  hears(): boolean;
}

/**
 * This process hears of its own commits at once. Servers in other processes are told afterwards, by one message for all
 * that was committed since the last: a notification inside a transaction would make all of those take turns to be
 * flushed to the disk, because PostgreSQL keeps notifications in the order of the commits. A server that dies between
 * the two has told nobody, which is why whoever listens also looks now and then. Where no other listens, nothing is sent.
 *
 * Listening takes a connection of its own, made anew when it
 * breaks. What was announced meanwhile is lost, so everybody who listens is told then to look for themselves.
 */
export function announceOverNotify(
  makeClient: () => Client,
  reach: Reach,
  ask: (text: string, message: string) => Promise<unknown>,
): NotifyAnnouncements {
  const listeners = new Listeners();
  const pending = new Pending();
  const speaker = randomName();
  const unsaid = new Set<string>();
  let speaking: Promise<void> | undefined;
  let listening: Promise<void> | undefined;
  let client: Client | undefined;
  let hears = false;
  let saying: NodeJS.Timeout | undefined;
  const neighbours = new Neighbours();
  let isToSayThere = false;

  const hear = (message: string): void => {
    const [said = '', ...topics] = message.split('\n');
    if (said === speaker) return;
    if (neighbours.hear(said)) {
      sayThere();
      listeners.miss(); // what it did before it knew of this server, it may have kept to itself
    }
    for (const topic of topics) listeners.tell(topic);
  };

  const speak = async (): Promise<void> => {
    while (unsaid.size > 0 || isToSayThere) {
      let message = speaker;
      isToSayThere = false;
      for (const topic of unsaid) {
        if (message.length + topic.length >= longestMessage) break;
        message += `\n${topic}`;
        unsaid.delete(topic);
      }
      await ask(notify, message).catch(() => {}); // a hint that is lost costs those who wait for it a second
    }
  };
  const speakSoon = (): void => {
    speaking ??= speak().finally(() => {
      speaking = undefined;
      if (unsaid.size > 0 || isToSayThere) speakSoon();
    });
  };
  /** Tells the others that somebody listens here. */
  const sayThere = (): void => {
    isToSayThere = true;
    speakSoon();
  };

  /** Resolves when the connection has ended, however it did. */
  const hearOnce = async (): Promise<void> => {
    const fresh = makeClient();
    const ended = Promise.withResolvers<void>();
    fresh.on('end', ended.resolve);
    fresh.on('error', () => ended.resolve());
    fresh.on('notification', ({ payload = '' }) => hear(payload));
    client = fresh;
    try {
      await fresh.connect();
      await fresh.query(`listen ${channel}`);
      hears = true;
      neighbours.listens();
      sayThere();
      saying = setInterval(sayThere, sayEveryMs).unref();
      listeners.miss();
      await ended.promise;
    } finally {
      hears = false;
      neighbours.isDeaf();
      clearInterval(saying);
      client = undefined;
      void fresh.end().catch(() => {}); // it is gone as a rule
    }
  };
  const keepHearing = async (): Promise<void> => {
    for (let wait = 50; !reach.isClosed; wait = Math.min(2 * wait, 1000)) {
      try {
        await hearOnce();
        wait = 50;
      } catch (error) {
        if (!reach.isClosed) await reach.lost(messageOf(error)).catch(() => {});
      }
      if (!reach.isClosed) await pause(wait);
    }
  };

  return {
    announce: (trx, topic) => pending.add(trx, topic),
    committed(trx) {
      const isAlone = neighbours.isAlone();
      for (const topic of pending.of(trx)) {
        if (!isAlone) unsaid.add(topic);
        listeners.tell(topic);
      }
      if (unsaid.size > 0) speakSoon();
    },
    listen(heard, missed) {
      if (!reach.isClosed) listening ??= keepHearing();
      return listeners.add(heard, missed);
    },
    listenEarly: () => () => {},
    hears: () => hears,
    async close() {
      await speaking;
      reach.close();
      await client?.end().catch(() => {});
      await listening;
    },
  };
}
