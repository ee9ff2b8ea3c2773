import { PostgresDialect, type Dialect } from 'kysely';
import type { Client, ClientConfig } from 'pg';
import type { Announcements } from './announcements.ts';
import { lastingPool, plain, watchedClient } from './postgres-pool.ts';
import { announceOverNotify } from './postgres-notify.ts';
import { Reach } from './reach.ts';

export interface PostgresParts {
  dialect: Dialect;
  announcements: Announcements;
  close(): void;
  isAway(): boolean;
  hears(): boolean;
}

interface PostgresOptions {
  url: string;
  /** How long a query waits for a database that is unreachable. */
  waitLimitMs: number;
  /** Called when the database becomes unreachable, or is too busy. */
  onLost: (error: Error) => void;
  /** Told how long a query outside a transaction took. */
  onRead: (milliseconds: number) => void;
}

const mostConnections = 16;
/** High load is no outage, so the wait for a free connection is this many times that for an unreachable database. */
const busyFactor = 4;
/** How long a connection may take to open. A server that is still starting says so at once. */
const connectWithinMs = 5000;
/** A connection that was silent for this long is tested: its server may be gone without closing it. */
const silenceMs = 5000;

/**
 * All queries here use indexes and take a millisecond; compiling one first takes twenty and more. The planner can only
 * guess the cost of a plan without an index, and for a table that is empty now and long soon it guesses wrong. So
 * indexes are used wherever there are any. Sorts stay: a few rows that an index finds are sorted at once, and without
 * that PostgreSQL would read a whole table in its order to find them. What searches the queue does without (`unsorted`).
 */
const alongIndexes = ['set jit = off', 'set enable_seqscan = off'].join(';');

/** PostgreSQL for Kysely. The driver is loaded only where it is used: most servers run on SQLite. */
export async function openPostgres({ url, waitLimitMs, onLost, onRead }: PostgresOptions): Promise<PostgresParts> {
  const { makeClient, Client: Watched, settings } = await clients(url);
  const { default: pg } = await import('pg');
  const reach = new Reach(async () => {
    const client = makeClient();
    await client.connect();
    await client.end();
  }, onLost);
  const pool = new pg.Pool({
    ...settings,
    max: mostConnections,
    connectionTimeoutMillis: busyFactor * waitLimitMs,
    pipeline: true, // queries of a transaction that are asked together are sent together
    Client: Watched,
    verify: (client, done) => client.query(alongIndexes, (error: Error | null) => done(error ?? undefined)),
  });
  pool.on('error', () => {}); // idle connections that break are replaced; without a listener this would end the process
  const announcements = announceOverNotify(makeClient, reach, (text, message) => pool.query(text, [message]));
  return {
    dialect: new PostgresDialect({ pool: lastingPool({ pool, reach, waitLimitMs, onBusy: onLost, onRead }) }),
    announcements,
    close: () => reach.close(),
    isAway: () => reach.isAway,
    hears: () => announcements.hears(),
  };
}

/** A separate connection, for work that must stay on one. When it is lost, every query on it fails. */
export async function connectPostgres(url: string): Promise<Client> {
  const { makeClient } = await clients(url);
  const client = makeClient();
  await client.connect().catch((error: unknown) => {
    throw plain(error);
  });
  return client;
}

/** Opening a connection has a limit of its own, which belongs to its client: the pool's is that for a free connection. */
async function clients(url: string) {
  const { default: pg } = await import('pg');
  const types = new pg.TypeOverrides();
  types.setTypeParser(pg.types.builtins.INT8, BigInt);
  const settings: ClientConfig = {
    connectionString: url,
    types,
    application_name: 'headrace',
    keepAlive: true,
    keepAliveInitialDelayMillis: silenceMs,
  };
  const Watched = watchedClient(pg.Client, connectWithinMs);
  return { settings, Client: Watched, makeClient: () => new Watched(settings) };
}
