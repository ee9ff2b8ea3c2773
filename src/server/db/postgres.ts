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
  waitLimitMs: number;
  onLost: (error: Error) => void;
  onRead: (milliseconds: number) => void;
}

const mostConnections = 16;
/** High load is no outage: the wait for a free connection is this multiple of `waitLimitMs`. */
const busyFactor = 4;
/** Time to open a connection. A server that is still starting refuses at once. */
const connectWithinMs = 5000;
/** A connection silent for this long is tested: its server may have vanished without closing it. */
const silenceMs = 5000;

/** All queries here take a millisecond. Compiling one takes twenty or more. */
const withoutCompiler = 'set jit = off';

/** The driver is loaded only on use: most servers run on SQLite. */
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
    verify: (client, done) => client.query(withoutCompiler, (error: Error | null) => done(error ?? undefined)),
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

/** For work that must stay on one connection. If it is lost, every query on it fails. */
export async function connectPostgres(url: string): Promise<Client> {
  const { makeClient } = await clients(url);
  const client = makeClient();
  await client.connect().catch((error: unknown) => {
    throw plain(error);
  });
  return client;
}

/** The limit for opening a connection belongs to its client; the pool's limit is for getting a free one. */
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
