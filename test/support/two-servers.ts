import { join } from 'node:path';
import { Client as PgClient } from 'pg';
import type { TestDatabase } from './databases.ts';
import { Service } from './service.ts';

/** Two servers on one database, or one twice where there can be one alone. They are stopped by whoever asks for them. */
export async function twoServers(database: TestDatabase): Promise<Service[]> {
  const unmanaged = { ...database, afterwards: () => {} }; // they are stopped before anything is counted
  const settings = { webhook_allow: '127.0.0.0/8', base_url: 'https://ci.example.org' };
  if (database.kind === 'sqlite') {
    const only = new Service(unmanaged, { settings });
    await only.start();
    return [only, only];
  }
  const url = await database.emptyUrl();
  await query(url, `alter database ${nameIn(url)} set deadlock_timeout = '50ms'`);
  const first = new Service(unmanaged, { settings: { ...settings, database_url: url } });
  await first.start();
  const shared = { database_url: url, master_key_file: join(first.folder, 'master.key') };
  const second = new Service(unmanaged, { settings: { ...settings, ...shared } });
  await second.start();
  return [first, second]; // the one whose folder holds the key is stopped last
}

function nameIn(url: string): string {
  return new URL(url).pathname.slice(1);
}

/** Counted by the database; each connection says what it knows when it ends, which all have by now. */
export async function deadlocks(url: string): Promise<number> {
  const [row] = await query(url, `select deadlocks from pg_stat_database where datname = '${nameIn(url)}'`);
  return Number(row?.deadlocks);
}

async function query(url: string, text: string): Promise<Record<string, unknown>[]> {
  const client = new PgClient(url);
  await client.connect();
  try {
    return (await client.query<Record<string, unknown>>(text)).rows;
  } finally {
    await client.end();
  }
}
