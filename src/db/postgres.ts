import { PostgresDialect, type Dialect } from 'kysely';
import type { Client, ClientConfig } from 'pg';

/** PostgreSQL for Kysely. The driver is loaded only where it is used: most servers run on SQLite. */
export async function postgresDialect(url: string, onLost: (error: Error) => void): Promise<Dialect> {
  const { default: pg } = await import('pg');
  const pool = new pg.Pool({ ...(await settings(url)), max: 16 });
  pool.on('error', onLost); // an idle connection that breaks is replaced; without a listener it would end the process
  return new PostgresDialect({ pool });
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
