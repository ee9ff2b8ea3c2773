import { copyFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { openDatabase, type Database } from '../../src/server/db/open.ts';
import { cleanUpAfterwards, folderFor, temporaryFolder, type CleanUp } from './folders.ts';
import { lacks } from './machine.ts';
import { dropDatabase, newDatabase } from './postgres.ts';
import { templates } from './templates.ts';

export { temporaryFolder };

/** A kind of database to run tests on. All databases are removed after the tests of the block. */
export interface TestDatabase {
  readonly kind: Database['kind'];
  /** The address of an empty database. */
  emptyUrl(): Promise<string>;
  /** The address of a database with all its tables. */
  migratedUrl(): Promise<string>;
  /** An open database with all its tables. */
  open(): Promise<Database>;
  /** An open database without tables; if an address is given, that database. */
  openEmpty(url?: string): Promise<Database>;
  /** Adds a clean-up after the tests of the block. The last one runs first. */
  afterwards: (cleanUp: CleanUp) => void;
}

type Define = (database: TestDatabase) => void;

/** The quick run has SQLite alone. */
const isQuick = process.env.TEST_QUICK !== undefined;

/** Runs the same tests on SQLite and on PostgreSQL. */
export function onEveryDatabase(define: Define): void {
  on(isQuick ? ['sqlite'] : ['sqlite', 'postgres'], define);
}

/**
 * For tests of what does not depend on the database: on one kind, and with `npm test -- --both` on both. Journeys whose
 * queries have tests of their own on both kinds take one or the other here, so that each kind is seen by some.
 */
export function onOneDatabase(define: Define, kind: TestDatabase['kind'] = 'sqlite'): void {
  if (process.env.TEST_BOTH !== undefined) on(['sqlite', 'postgres'], define);
  else on([isQuick ? 'sqlite' : kind], define);
}

type Test = (name: string, work: (t: TestContext) => void | Promise<void>) => unknown;

/** `test` for what does not depend on the database, in a block that is for both: it runs on one (see `onOneDatabase`). */
export function testsOnOne({ kind }: Pick<TestDatabase, 'kind'>): Test {
  return kind === 'sqlite' || process.env.TEST_BOTH !== undefined ? test : () => {};
}

function on(kinds: readonly TestDatabase['kind'][], define: Define): void {
  for (const kind of kinds) {
    describe(`on ${kind}`, { skip: kind === 'postgres' && whyNoPostgres() }, () => {
      const afterwards = cleanUpAfterwards();
      const emptyFile = (): string => join(folderFor(afterwards), 'test.db');
      const newUrl = async (original?: string): Promise<string> => {
        const url = await newDatabase(postgresServer(), original);
        afterwards(() => dropDatabase(postgresServer(), url));
        return url;
      };
      const emptyUrl = async (): Promise<string> => (kind === 'sqlite' ? emptyFile() : newUrl());
      const migratedUrl = async (): Promise<string> => {
        if (kind === 'postgres') return newUrl(templates().postgres);
        const file = emptyFile();
        copyTables(file);
        return file;
      };
      const openEmpty = async (url?: string): Promise<Database> => {
        const db = await openDatabase({ url: url ?? (await emptyUrl()) });
        afterwards(() => db.close());
        return db;
      };
      const open = async (): Promise<Database> => openEmpty(await migratedUrl());
      define({ kind, emptyUrl, migratedUrl, openEmpty, open, afterwards });
    });
  }
}

/** Creates an SQLite database with all its tables. */
export function copyTables(file: string): void {
  copyFileSync(templates().sqlite, file);
}

type Place = Pick<TestDatabase, 'kind' | 'emptyUrl' | 'afterwards'>;

/** The settings for a program with an empty database of this kind. On SQLite the file is in the data folder. */
export async function settingsFor({
  kind,
  emptyUrl,
}: Pick<Place, 'kind' | 'emptyUrl'>): Promise<Record<string, string>> {
  return kind === 'postgres' ? { HEADRACE_DATABASE_URL: await emptyUrl() } : {};
}

/** A data folder for a program, and those settings. */
export async function placeFor(database: Place): Promise<{ folder: string; env: Record<string, string> }> {
  return { folder: folderFor(database.afterwards), env: await settingsFor(database) };
}

/** Why this run has no PostgreSQL; false if it has one. */
export function whyNoPostgres(): string | false {
  if (process.env.TEST_POSTGRES_URL !== undefined) return false;
  return isQuick ? 'PostgreSQL is for npm test -- --all' : lacks('postgres');
}

/** The address of the tests' own PostgreSQL. */
function postgresServer(): string {
  const server = process.env.TEST_POSTGRES_URL;
  if (server === undefined) throw new Error('these tests are run by scripts/test, which starts PostgreSQL for them');
  return server;
}
