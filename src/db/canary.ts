import { existsSync } from 'node:fs';
import { sql } from 'kysely';
import { createMasterKey, openVault, sealedWith, type Vault } from '../lib/vault.ts';
import type { Database, Queries } from './open.ts';
import { sealedColumns, sealedPlace } from './schema.ts';

/**
 * Whether a master key belongs to a database. Each database holds one value that is sealed for nothing but this, the
 * canary: a key that does not open it is refused before anything is sealed with it. Otherwise a lost key file would be
 * followed by a new one, and what either of them sealed could not be read with the other.
 *
 * Who finds no canary holds its table until one is there, so of several servers that start together on an empty database
 * one makes the key. A database from before there were canaries is known by the values that it holds.
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

/** The vault of a database. A key is made where the database holds nothing that another one could have sealed. */
export async function openVaultOf(db: Database, file: string): Promise<Vault> {
  const known = await canaryOf(db.read);
  if (known.length > 0) return vaultThatOpens(file, known);
  return db.transaction(async (trx) => {
    await db.holdTable(trx, canary.table);
    const samples = await samplesOf(trx);
    if (samples.length === 0) createMasterKey(file); // and it stays, whatever becomes of this transaction: it may be in use
    const vault = vaultThatOpens(file, samples);
    if ((await canaryOf(trx)).length === 0) {
      const sealed = vault.seal(canaryText, sealedPlace(canary, canaryId));
      await trx.insertInto(canary.table).values({ id: canaryId, sealed }).execute();
    }
    return vault;
  });
}

/** Rejects when the key file has been taken away or exchanged since it was opened, or the database sealed anew without it. */
export async function proveMasterKey(db: Database, vault: Vault): Promise<void> {
  vault.currentPrefix(); // looks at the file
  for (const { sealed, place } of await canaryOf(db.read)) vault.open(sealed, place);
}

/** Refuses a key file that does not open what the database holds, in a database of any age. */
export async function checkMasterKey(db: Queries, file: string): Promise<void> {
  const samples = await samplesOf(db);
  if (samples.length > 0) vaultThatOpens(file, samples);
}

function vaultThatOpens(file: string, samples: Sample[]): Vault {
  if (!existsSync(file)) {
    const numbers = new Set(samples.map(({ sealed }) => sealedWith(sealed)));
    throw new MasterKeyError(
      `there is no master key at ${file}, and this database holds what was sealed with key ${[...numbers].join(', ')}. ${whatToDo}`,
    );
  }
  const vault = openVault(file);
  for (const { sealed, place } of samples) {
    try {
      vault.open(sealed, place);
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      throw new MasterKeyError(`the master key at ${file} is not the one of this database: ${why}. ${whatToDo}`);
    }
  }
  return vault;
}

const whatToDo =
  'Put the right file there (master_key_file), from a backup or from another server on this database. ' +
  'Without it what is sealed cannot be read again; a new key would not help, so none was made and nothing was changed.';

async function canaryOf(db: Queries): Promise<Sample[]> {
  const rows = await db.selectFrom(canary.table).selectAll().execute();
  return rows.map(({ id, sealed }) => ({ sealed, place: sealedPlace(canary, id) }));
}

/** The oldest value of every sealed column, as far as the database has that table already. */
async function samplesOf(db: Queries): Promise<Sample[]> {
  const tables = new Set((await db.introspection.getTables()).map(({ name }) => name));
  const samples: Sample[] = [];
  for (const place of sealedColumns.filter(({ table }) => tables.has(table))) {
    const { rows } = await sql<{ id: bigint; sealed: string }>`
      select id, ${sql.ref(place.column)} as sealed from ${sql.table(place.table)} order by id limit 1
    `.execute(db);
    samples.push(...rows.map(({ id, sealed }) => ({ sealed, place: sealedPlace(place, id) })));
  }
  return samples;
}
