import { join } from 'node:path';
import { Client as PgClient } from 'pg';
import type { TestDatabase } from './databases.ts';
import { logOf } from './postgres.ts';
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
  for (const setting of ["deadlock_timeout = '50ms'", "log_statement = 'all'"])
    await query(url, `alter database ${nameIn(url)} set ${setting}`);
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

/**
 * The circles in which transactions waited for each other, in words: each with what the database says of it, and all
 * that these transactions had asked for until then.
 */
export function deadlocks(url: string): string[] {
  const entries = logOf(url)
    .split(/\n(?!\t)/)
    .filter((entry) => entry.startsWith(`${nameIn(url)} `))
    .map((entry) => entry.slice(nameIn(url).length + 1));
  return entries.flatMap((entry, at) => {
    if (!entry.includes('ERROR:  deadlock detected')) return [];
    const [circle = ''] = entries.slice(at + 1).filter((one) => one.includes('DETAIL:'));
    const processes = new Set(Array.from(circle.matchAll(/Process (\d+)/g), ([, process = '']) => process));
    const asked = Array.from(processes, (process) => {
      const own = entries.slice(0, at).filter((one) => one.startsWith(`${process} `));
      return own.slice(own.findLastIndex((one) => /LOG: .*: begin/.test(one))).join('\n');
    });
    return [[entry, circle, ...asked].join('\n\n')];
  });
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
