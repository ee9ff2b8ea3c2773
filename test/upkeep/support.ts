import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { makeDataFolder } from '../../src/cli/operator/store.ts';
import { migrate } from '../../src/server/db/migrate.ts';
import { openDatabase, type Database } from '../../src/server/db/open.ts';
import { createMasterKey } from '../../src/shared/lib/vault.ts';
import { command } from '../support/command.ts';
import { newDatabase } from '../support/postgres.ts';

export type Kind = 'sqlite' | 'postgres';

/** Both databases; PostgreSQL where the run has one. */
export const kinds: Kind[] = process.env.TEST_POSTGRES_URL === undefined ? ['sqlite'] : ['sqlite', 'postgres'];

/** A Headrace that is not started: its data folder, its database, and its command line. */
export interface Installation {
  folder: string;
  url: string;
  keyFile: string;
  command(...args: string[]): Promise<{ status: number | null; stdout: string; stderr: string }>;
}

export function temporaryFolder(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'headrace-upkeep-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

export async function newInstallation(t: TestContext, kind: Kind): Promise<Installation> {
  const folder = join(temporaryFolder(t), 'data');
  const url = kind === 'sqlite' ? join(folder, 'headrace.db') : await newDatabase(process.env.TEST_POSTGRES_URL ?? '');
  const env: Record<string, string> = kind === 'postgres' ? { HEADRACE_DATABASE_URL: url } : {};
  return {
    folder,
    url,
    keyFile: join(folder, 'master.key'),
    async command(...args) {
      const { status, stdout, stderr } = await command([...args, '--data-dir', folder], env);
      return { status, stdout: stdout.toString(), stderr: stderr.toString() };
    },
  };
}

export async function openTables(t: TestContext, { url }: Installation): Promise<Database> {
  const db = await openDatabase({ url });
  t.after(() => db.close());
  return db;
}

/** With its folder, its master key and its tables. */
export async function preparedInstallation(
  t: TestContext,
  kind: Kind,
): Promise<{ installation: Installation; db: Database }> {
  const installation = await newInstallation(t, kind);
  makeDataFolder(installation.folder);
  createMasterKey(installation.keyFile);
  const db = await openTables(t, installation);
  await migrate(db);
  return { installation, db };
}
