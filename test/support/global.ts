import { hasty, startPostgres, type Postgres } from './postgres.ts';
import { makeTemplates } from './templates.ts';

/**
 * One real PostgreSQL for the whole run. Test processes find its address in their environment. It is not named
 * HEADRACE_…, because the program refuses unknown settings. Files that need no database do without it.
 */
let postgres: Postgres | undefined;

export async function globalSetup(): Promise<void> {
  if (process.env.TEST_WITHOUT_POSTGRES !== undefined) return;
  postgres = await startPostgres(hasty, { inMemory: true });
  process.env.TEST_POSTGRES_URL = postgres.url;
  await makeTemplates(postgres);
}

export async function globalTeardown(): Promise<void> {
  await postgres?.close();
}
