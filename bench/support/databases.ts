import { startPostgres, type Postgres } from '../../test/support/postgres.ts';
import { round, type Figure } from './report.ts';

export type DatabaseName = 'SQLite' | 'PostgreSQL';

/** Settings that give a Headrace a new database of each kind. */
export interface Databases {
  settingsFor(name: DatabaseName): Promise<NodeJS.ProcessEnv>;
  close(): Promise<void>;
}

/** PostgreSQL with its defaults: each commit waits for the disk, as SQLite's does here. Started on first use. */
export function openDatabases(): Databases {
  let postgres: Promise<Postgres> | undefined;
  return {
    async settingsFor(name) {
      if (name === 'SQLite') return {};
      postgres ??= startPostgres();
      return { HEADRACE_DATABASE_URL: await (await postgres).emptyUrl() };
    },
    close: async () => (await postgres)?.close(),
  };
}

/** The same on each kind. Measurements on both are in turns, so that a slow minute slows both. */
export interface OnBoth<T> {
  sqlite: T;
  postgres: T;
}

export async function onBoth<T>(
  databases: Databases,
  make: (settings: NodeJS.ProcessEnv, name: DatabaseName) => Promise<T>,
): Promise<OnBoth<T>> {
  const sqlite = await make(await databases.settingsFor('SQLite'), 'SQLite');
  const postgres = await make(await databases.settingsFor('PostgreSQL'), 'PostgreSQL');
  return { sqlite, postgres };
}

/** PostgreSQL's figure as a share of SQLite's, or as a multiple of it. */
export function postgresOver(
  { sqlite, postgres }: OnBoth<number>,
  { what, limit, unit }: Pick<Figure, 'what' | 'limit'> & { unit: string },
): Figure {
  const kind = 'atLeast' in limit ? 'share of SQLite' : 'over SQLite';
  return {
    what: `${what} on PostgreSQL, ${kind}`,
    value: postgres / sqlite,
    limit,
    from: `${round(postgres)}${unit} against ${round(sqlite)}${unit}`,
  };
}
