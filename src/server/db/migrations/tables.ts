import { readFileSync } from 'node:fs';
import { sql } from 'kysely';
import { sourceFile } from '../../../shared/lib/source-files.ts';
import type { Database, Transaction } from '../open.ts';

/**
 * Runs the SQL of a file in this folder. The file uses types that both databases have, and PostgreSQL's type for bytes.
 */
export async function applyFile(trx: Transaction, kind: Database['kind'], name: string): Promise<void> {
  const tables = readFileSync(sourceFile('server', 'db', 'migrations', name), 'utf8');
  const statements = kind === 'sqlite' ? tables.replaceAll(' bytea', ' blob') : tables;
  for (const statement of statements.split(/;\n/).slice(0, -1)) await sql.raw(statement).execute(trx);
}
