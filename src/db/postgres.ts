import { PostgresAdapter, PostgresIntrospector, PostgresQueryCompiler, type Dialect } from 'kysely';
import type { Client, ClientConfig } from 'pg';
import type { Announcements } from './announcements.ts';
import type { SnapshotCache } from './snapshot-cache.ts';
import { PostgresDriver, plain, watchBreaking } from './postgres-driver.ts';
import { lookForCommits, PostgresSnapshotCache } from './postgres-snapshot-cache.ts';
import { announceOverNotify } from './postgres-notify.ts';
import { comesAgain, type DirectWay } from './prepared.ts';
import { Reach } from './reach.ts';
import type { Session } from './session.ts';

export interface PostgresParts {
  dialect: Dialect;
  reading: DirectWay;
  begin(): Session;
  announcements: Announcements;
  cache(): Promise<SnapshotCache>;
  close(): Promise<void>;
  isAway(): boolean;
  hears(): boolean;
}

interface PostgresOptions {
  url: string;
  /** How long a query waits for a database that is unreachable. */
  waitLimitMs: number;
  /** Called when the database becomes unreachable. */
  onLost: (error: Error) => void;
}

const mostConnections = 16;
/** How long a connection may take to open. A server that is still starting says so at once. */
const connectWithinMs = 5000;
/** A connection that was silent for this long is tested: its server may be gone without closing it. */
const silenceMs = 5000;

/**
 * All queries here use indexes and take a millisecond; compiling one first takes twenty and more. The planner can only
 * guess the cost of a plan without an index, and for a queue that is empty now and long soon it guesses wrong. So
 * indexes are used wherever there are any.
 */
const alongIndexes = ['set jit = off', 'set enable_seqscan = off', 'set enable_sort = off'].join(';');

/** PostgreSQL for Kysely. The driver is loaded only where it is used: most servers run on SQLite. */
export async function openPostgres({ url, waitLimitMs, onLost }: PostgresOptions): Promise<PostgresParts> {
  const [{ default: pg }, { ask: send }] = await Promise.all([import('pg'), import('./postgres-batch.ts')]);
  const options = await settings(url);
  const makeClient = (): Client => {
    const client = new pg.Client(options);
    watchBreaking(client);
    return client;
  };
  const reach = new Reach(async () => {
    const client = makeClient();
    await client.connect();
    await client.end();
  }, onLost);
  // Waiting for a free connection has no limit, unlike opening one: high load is no outage.
  const { connectionTimeoutMillis, ...others } = options;
  const pool = new pg.Pool({
    ...others,
    max: mostConnections,
    pipeline: true,
    Client: class extends pg.Client {
      constructor(config?: ClientConfig) {
        super({ ...config, connectionTimeoutMillis });
        watchBreaking(this);
      }
    },
    verify: (client, done) => client.query(alongIndexes, (error: Error | null) => done(error ?? undefined)),
  });
  pool.on('error', () => {}); // idle connections that break are replaced; without a listener this would end the process
  const driver = new PostgresDriver(pool, reach, waitLimitMs, send);
  const dialect: Dialect = {
    createAdapter: () => new PostgresAdapter(),
    createDriver: () => driver,
    createIntrospector: (db) => new PostgresIntrospector(db),
    createQueryCompiler: () => new PostgresQueryCompiler(),
  };
  const ask = async <Row>(text: string, values: unknown[] = []): Promise<Row[]> =>
    (await driver.read<Row>(comesAgain({ sql: text, parameters: values }))).rows;
  const announcements = announceOverNotify(makeClient, reach, (text, message) => ask(text, [message]));
  const cache = new PostgresSnapshotCache(async () => (await ask<{ seen: string }>(lookForCommits))[0]?.seen ?? '');
  return {
    dialect,
    reading: { execute: (query) => driver.read(query) },
    begin: () => {
      const session = driver.open();
      session.begin();
      return session;
    },
    announcements,
    cache: () => cache.now(),
    close: () => driver.destroy(),
    isAway: () => reach.isAway,
    hears: () => announcements.hears(),
  };
}

/** A separate connection, for work that must stay on one. When it is lost, every query on it fails. */
export async function connectPostgres(url: string): Promise<Client> {
  const { default: pg } = await import('pg');
  const client = new pg.Client(await settings(url));
  watchBreaking(client);
  await client.connect().catch((error: unknown) => {
    throw plain(error);
  });
  return client;
}

async function settings(url: string): Promise<ClientConfig> {
  const { default: pg } = await import('pg');
  const types = new pg.TypeOverrides();
  types.setTypeParser(pg.types.builtins.INT8, BigInt);
  return {
    connectionString: url,
    types,
    application_name: 'headrace',
    connectionTimeoutMillis: connectWithinMs,
    keepAlive: true,
    keepAliveInitialDelayMillis: silenceMs,
  };
}
