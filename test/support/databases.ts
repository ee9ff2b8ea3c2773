import { copyFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { after, describe } from 'node:test';
import { openDatabase, type Database } from '../../src/db/open.ts';
import { temporaryFolder } from './folders.ts';
import { newDatabase } from './postgres.ts';
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
  afterwards(cleanUp: CleanUp): void;
}

type CleanUp = () => void | Promise<void>;

/** Runs the same tests on SQLite and on PostgreSQL. */
export function onEveryDatabase(define: (database: TestDatabase) => void): void {
  for (const kind of ['sqlite', 'postgres'] as const) {
    describe(`on ${kind}`, () => {
      const cleanUps: CleanUp[] = [];
      after(async () => {
        for (const cleanUp of cleanUps.reverse()) await cleanUp();
      });
      const emptyUrl = (): Promise<string> => (kind === 'sqlite' ? emptyFile(cleanUps) : newDatabase(postgresServer()));
      const migratedUrl = async (): Promise<string> => {
        if (kind === 'postgres') return newDatabase(postgresServer(), templates().postgres);
        const file = await emptyFile(cleanUps);
        copyTables(file);
        return file;
      };
      const openEmpty = async (url?: string): Promise<Database> => {
        const db = await openDatabase({ url: url ?? (await emptyUrl()) });
        cleanUps.push(() => db.close());
        return db;
      };
      const open = async (): Promise<Database> => openEmpty(await migratedUrl());
      define({ kind, emptyUrl, migratedUrl, openEmpty, open, afterwards: (cleanUp) => void cleanUps.push(cleanUp) });
    });
  }
}

/** Creates an SQLite database with all its tables. */
export function copyTables(file: string): void {
  copyFileSync(templates().sqlite, file);
}

async function emptyFile(cleanUps: CleanUp[]): Promise<string> {
  const folder = temporaryFolder();
  cleanUps.push(() => rmSync(folder, { recursive: true }));
  return join(folder, 'test.db');
}

/** The address of the tests' own PostgreSQL. */
function postgresServer(): string {
  const server = process.env.TEST_POSTGRES_URL;
  if (server === undefined) throw new Error('these tests are run by scripts/test, which starts PostgreSQL for them');
  return server;
}
