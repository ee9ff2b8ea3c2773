import { setTimeout as pause } from 'node:timers/promises';
import { sql } from 'kysely';
import type { Client } from 'pg';
import { Listeners, type Announcements } from './announcements.ts';
import { messageOf } from './postgres-driver.ts';
import type { Reach } from './reach.ts';

const channel = 'headrace';

export interface NotifyAnnouncements extends Announcements {
  /** Whether what is announced at this moment is heard. */
  hears(): boolean;
}

/**
 * NOTIFY inside the transaction goes out with its commit. Listening takes a connection of its own, made anew when it
 * breaks. What was announced meanwhile is lost, so everybody who listens is told then to look for themselves.
 */
export function announceOverNotify(makeClient: () => Client, reach: Reach): NotifyAnnouncements {
  const listeners = new Listeners();
  let listening: Promise<void> | undefined;
  let client: Client | undefined;
  let hears = false;

  /** Resolves when the connection has ended, however it did. */
  const hearOnce = async (): Promise<void> => {
    const fresh = makeClient();
    const ended = Promise.withResolvers<void>();
    fresh.on('end', ended.resolve);
    fresh.on('error', () => ended.resolve());
    fresh.on('notification', ({ payload }) => listeners.tell(payload ?? ''));
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
    async announce(trx, topic) {
      await sql`select pg_notify(${channel}, ${topic})`.execute(trx);
    },
    committed: () => {},
    listen(heard, missed) {
      if (!reach.isClosed) listening ??= keepHearing();
      return listeners.add(heard, missed);
    },
    listenEarly: () => () => {},
    hears: () => hears,
    async close() {
      reach.close();
      await client?.end().catch(() => {});
      await listening;
    },
  };
}
