import { PostgresDialect, type Dialect } from 'kysely';

/** PostgreSQL for Kysely. The driver is loaded only where it is used: most servers run on SQLite. */
export async function postgresDialect(url: string, onLost: (error: Error) => void): Promise<Dialect> {
  const { default: pg } = await import('pg');
  const types = new pg.TypeOverrides();
  types.setTypeParser(pg.types.builtins.INT8, BigInt);
  const pool = new pg.Pool({ connectionString: url, types, max: 16, application_name: 'headrace' });
  pool.on('error', onLost); // an idle connection that breaks is replaced; without a listener it would end the process
  return new PostgresDialect({ pool });
}
