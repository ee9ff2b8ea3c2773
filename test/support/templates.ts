import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { migrate } from '../../src/server/db/migrate.ts';
import { openDatabase } from '../../src/server/db/open.ts';
import { ownCertificate } from '../../src/server/http/certificate.ts';
import type { Postgres } from './postgres.ts';

/**
 * Databases with tables only, and the certificate of a server on this machine. They are made once for a whole run, and
 * tests copy them: that is much quicker than running all migrations and making keys.
 */
export interface Templates {
  /** A file. */
  sqlite: string;
  /** The name of a database on the run's PostgreSQL; empty in a run without one. */
  postgres: string;
  /** A folder. */
  certificate: string;
}

/** Test processes find them in their environment. */
export async function makeTemplates(folder: string, server: Postgres | undefined): Promise<void> {
  const file = join(folder, 'template.db');
  const url = await server?.emptyUrl();
  for (const place of url === undefined ? [file] : [file, url]) {
    const db = await openDatabase({ url: place });
    await migrate(db);
    await db.close();
  }
  const certificate = join(folder, 'template');
  await ownCertificate(certificate);
  const postgres = url === undefined ? '' : new URL(url).pathname.slice(1);
  const made: Templates = { sqlite: file, postgres, certificate };
  process.env.TEST_TEMPLATES = JSON.stringify(made);
}

export function templates(): Templates {
  const made = process.env.TEST_TEMPLATES;
  if (made === undefined) throw new Error('these tests are run by scripts/test, which makes the tables for them');
  return JSON.parse(made) as Templates;
}

/** Gives a data folder a certificate, which a server would otherwise make at its first start. */
export function copyCertificate(folder: string): void {
  cpSync(templates().certificate, folder, { recursive: true });
}
