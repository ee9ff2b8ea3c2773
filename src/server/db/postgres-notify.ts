import { setTimeout as pause } from 'node:timers/promises';
import type { Client } from 'pg';
import { messageOf } from '../../shared/lib/error-code.ts';
import { randomName } from '../../shared/lib/random-name.ts';
import { Listeners, type Announcements } from './announcements.ts';
import type { Reach } from './reach.ts';

const channel = 'headrace';
/** Payload limit of a notification in bytes, with some to spare. */
const longestMessage = 7000;
/** Not flushed to disk: after a crash a notification is worthless. */
const notify = `select set_config('synchronous_commit', 'off', true), pg_notify('${channel}', $1)`;

export interface NotifyAnnouncements extends Announcements {
  hears(): boolean;
}

/**
 * This process learns of its own commits at once. Other servers get one message for all commits since the last
 * message. PostgreSQL orders notifications by commit, so notifications inside transactions would make these wait for
 * each other's flush. If a server dies, its messages can be lost. So listeners also poll the store, and do so after
 * the listening connection was reopened.
 */
export function announceOverNotify(
  makeClient: () => Client,
  reach: Reach,
  ask: (text: string, message: string) => Promise<unknown>,
): NotifyAnnouncements {
  const listeners = new Listeners();
  const speaker = randomName();
  const unsent = new Set<string>();
  let speaking: Promise<void> | undefined;
  let listening: Promise<void> | undefined;
  let client: Client | undefined;
  let hears = false;

  const onMessage = (message: string): void => {
    const [sender = '', ...topics] = message.split('\n');
    if (sender !== speaker) for (const topic of topics) listeners.notify(topic);
  };

  const speak = async (): Promise<void> => {
    while (unsent.size > 0) {
      let message = speaker;
      for (const topic of unsent) {
        if (message.length + topic.length >= longestMessage) break;
        message += `\n${topic}`;
        unsent.delete(topic);
      }
      await ask(notify, message).catch(() => {}); // a lost hint costs a listener a second
    }
  };
  const speakSoon = (): Promise<void> =>
    (speaking ??= speak().finally(() => {
      speaking = undefined;
      if (unsent.size > 0) void speakSoon();
    }));

  const listenOnce = async (): Promise<void> => {
    const fresh = makeClient();
    const ended = Promise.withResolvers<void>();
    fresh.on('end', ended.resolve);
    fresh.on('error', () => ended.resolve());
    fresh.on('notification', ({ payload = '' }) => onMessage(payload));
    client = fresh;
    try {
      await fresh.connect();
      await fresh.query(`listen ${channel}`);
      hears = true;
      listeners.miss();
      await ended.promise;
    } finally {
      hears = false;
      client = undefined;
      void fresh.end().catch(() => {}); // usually it has ended already
    }
  };
  const keepListening = async (): Promise<void> => {
    for (let wait = 50; !reach.isClosed; wait = Math.min(2 * wait, 1000)) {
      try {
        await listenOnce();
        wait = 50;
      } catch (error) {
        if (!reach.isClosed) await reach.lost(messageOf(error)).catch(() => {});
      }
      if (!reach.isClosed) await pause(wait);
    }
  };

  return {
    committed(topics) {
      for (const topic of topics) {
        unsent.add(topic);
        listeners.notify(topic);
      }
      if (unsent.size > 0) void speakSoon();
    },
    tellOthers(topic) {
      unsent.add(topic);
      return speakSoon();
    },
    listen(heard, missed) {
      if (!reach.isClosed) listening ??= keepListening();
      return listeners.add(heard, missed);
    },
    hears: () => hears,
    async close() {
      await speaking;
      reach.close();
      await client?.end().catch(() => {});
      await listening;
    },
  };
}
