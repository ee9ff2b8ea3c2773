import type { Dialect } from 'kysely';
import type { Client, ClientConfig } from 'pg';
import { randomName } from '../lib/random-name.ts';
import { sharedAnnouncements, type Announcements, type Messages } from './announcements.ts';
import type { Memory } from './memory.ts';
import { pipelinedDialect } from './postgres-driver.ts';
import { lookForCommits, SnapshotMemory } from './snapshot-memory.ts';

const channel = 'headrace';

/** PostgreSQL for Kysely. The driver is loaded only where it is used: most servers run on SQLite. */
export async function openPostgres(
  url: string,
  onLost: (error: Error) => void,
): Promise<{ dialect: Dialect; announcements: Announcements; memory: () => Promise<Memory> }> {
  const { default: pg } = await import('pg');
  const options = await settings(url);
  const pool = new pg.Pool({ ...options, max: 16, pipeline: true });
  pool.on('error', onLost); // an idle connection that breaks is replaced; without a listener it would end the process
  // All queries here take along indexes what they need, in a millisecond; compiling one first takes twenty and more.
  pool.on('connect', (client) => void client.query('set jit = off').catch(onLost));
  // Nobody waits for it to be on the disk: it is worth nothing any more after a crash.
  const say = `select set_config('synchronous_commit', 'off', true), pg_notify('${channel}', $1)`;
  const messages: Messages = {
    send: (message) => pool.query({ name: 'headrace_notify', text: say, values: [message] }),
    ...overNotify(pg.Client, options, onLost),
  };
  const memory = new SnapshotMemory(async () => {
    const { rows } = await pool.query<{ seen: string }>({ name: 'headrace_look', text: lookForCommits });
    return rows[0]?.seen ?? '';
  });
  return {
    dialect: pipelinedDialect(pool),
    announcements: sharedAnnouncements(messages, randomName(), onLost),
    memory: () => memory.now(),
  };
}

/** Listening takes a connection of its own, made anew when it breaks. */
function overNotify(
  PgClient: new (config: ClientConfig) => Client,
  options: ClientConfig,
  onLost: (error: Error) => void,
): Pick<Messages, 'listen' | 'close'> {
  let hear = (_message: string): void => {};
  let client: Client | undefined;
  let closed = false;
  let reconnect: NodeJS.Timeout | undefined;

  const connect = async (): Promise<void> => {
    const fresh = new PgClient(options);
    const lost = (error: Error): void => {
      if (client !== fresh || closed) return;
      client = undefined;
      onLost(error);
      reconnect = setTimeout(() => void connect(), 1000);
    };
    client = fresh;
    fresh.on('error', lost);
    fresh.on('end', () => lost(new Error('the connection that listens was closed')));
    fresh.on('notification', ({ payload }) => hear(payload ?? ''));
    try {
      await fresh.connect();
      await fresh.query(`listen ${channel}`);
    } catch (error) {
      lost(error instanceof Error ? error : new Error(String(error)));
    }
  };

  return {
    listen(heard) {
      hear = heard;
      if (!client && !closed) void connect();
    },
    async close() {
      closed = true;
      clearTimeout(reconnect);
      await client?.end();
    },
  };
}

/** One connection of its own, for work that has to stay on it. */
export async function connectPostgres(url: string): Promise<Client> {
  const { default: pg } = await import('pg');
  const client = new pg.Client(await settings(url));
  await client.connect();
  return client;
}

async function settings(url: string): Promise<ClientConfig> {
  const { default: pg } = await import('pg');
  const types = new pg.TypeOverrides();
  types.setTypeParser(pg.types.builtins.INT8, BigInt);
  return { connectionString: url, types, application_name: 'headrace' };
}
