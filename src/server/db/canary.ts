import { existsSync } from 'node:fs';
import { sql } from 'kysely';
import { messageOf } from '../../shared/lib/error-code.ts';
import { createMasterKey, openVault, sealedWith, type Vault } from '../../shared/lib/vault.ts';
import type { Database, Queries } from './open.ts';
import { sealedColumns, sealedLocation } from './schema.ts';

/**
 * Each database has a canary, a value sealed to check master keys. A key that does not open it is refused before it
 * seals anything. Otherwise a new key would replace a lost key file, and neither key could open the other's values.
 *
 * A server that finds no canary locks its table until one exists. So of several servers that start together on an empty
 * database, one creates the key. A database older than canaries is checked by its sealed values.
 */
export class MasterKeyError extends Error {
  override name = 'MasterKeyError';
}

const canary = { table: 'master_key_canary', column: 'sealed' } as const;
const canaryId = 1n;
const canaryText = 'Whoever can read this has the right key.';

interface Sample {
  place: string;
  sealed: string;
}

/** Creates a key only if the database has no sealed values. */
export async function openVaultOf(db: Database, file: string): Promise<Vault> {
  const known = await canaryOf(db.read);
  if (known.length > 0) return vaultThatOpens(file, known);
  return db.transaction(async (trx) => {
    await db.holdTable(trx, canary.table);
    const samples = await samplesOf(trx);
    if (samples.length === 0) createMasterKey(file); // the key stays even if this transaction fails: it may be in use
    const vault = vaultThatOpens(file, samples);
    if ((await canaryOf(trx)).length === 0) {
      const sealed = vault.seal(canaryText, sealedLocation(canary, canaryId));
      await trx.insertInto(canary.table).values({ id: canaryId, sealed }).execute();
    }
    return vault;
  });
}

/** Rejects if the key file was removed or replaced since it was opened, or the database was resealed without it. */
export async function proveMasterKey(db: Database, vault: Vault): Promise<void> {
  vault.currentPrefix(); // reads the file again if it changed
  for (const { sealed, place } of await canaryOf(db.read)) vault.open(sealed, place);
}

/** Refuses a key file that does not open the sealed values of the database, whatever its age. */
export async function checkMasterKey(db: Queries, file: string): Promise<void> {
  const samples = await samplesOf(db);
  if (samples.length > 0) vaultThatOpens(file, samples);
}

function vaultThatOpens(file: string, samples: Sample[]): Vault {
  if (!existsSync(file)) {
    const numbers = new Set(samples.map(({ sealed }) => sealedWith(sealed)));
    throw new MasterKeyError(
      `there is no master key at ${file}, and this database contains values sealed with key ${[...numbers].join(', ')}. ${whatToDo}`,
    );
  }
  const vault = openVault(file);
  for (const { sealed, place } of samples) {
    try {
      vault.open(sealed, place);
    } catch (error) {
      const why = messageOf(error);
      throw new MasterKeyError(`the master key at ${file} does not belong to this database: ${why}. ${whatToDo}`);
    }
  }
  return vault;
}

const whatToDo =
  'Restore the right file there (master_key_file), from a backup or from another server on this database. ' +
  'Without it, sealed values cannot be read again. A new key would not help, so none was made and nothing was changed.';

async function canaryOf(db: Queries): Promise<Sample[]> {
  const rows = await db.selectFrom(canary.table).selectAll().execute();
  return rows.map(({ id, sealed }) => ({ sealed, place: sealedLocation(canary, id) }));
}

async function samplesOf(db: Queries): Promise<Sample[]> {
  const tables = new Set((await db.introspection.getTables()).map(({ name }) => name));
  const samples: Sample[] = [];
  for (const place of sealedColumns.filter(({ table }) => tables.has(table))) {
    const { rows } = await sql<{ id: bigint; sealed: string }>`
      select id, ${sql.ref(place.column)} as sealed from ${sql.table(place.table)} order by id limit 1
    `.execute(db);
    samples.push(...rows.map(({ id, sealed }) => ({ sealed, place: sealedLocation(place, id) })));
  }
  return samples;
}
