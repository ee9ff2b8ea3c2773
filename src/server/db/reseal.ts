import { setTimeout as pause } from 'node:timers/promises';
import { sql } from 'kysely';
import type { Vault } from '../../shared/lib/vault.ts';
import type { Database, Queries, Transaction } from './open.ts';
import { sealedColumns, sealedLocation } from './schema.ts';

export { isLockTimeout } from './open.ts';

/**
 * Moves every sealed value to the current master key while servers continue to write.
 *
 * Every server seals with the first key of the key file, because a vault checks the file before each seal. After a new
 * first key, two kinds of late writes could leave a value under an old key, even after a pass over all rows:
 * 1. A transaction that sealed just before the new key came and commits only now. SQLite servers seal while they hold
 *    the write lock, so the next holder sees their writes. On PostgreSQL, `olderTransactionsEnded` waits for every
 *    transaction that was open when the key was already there. Later transactions seal with the new key.
 * 2. A transaction that read a row before it was resealed and writes the old value back. SQLite reads and writes under
 *    one lock, so it cannot. On PostgreSQL the final check locks the tables exclusively, which waits for every open
 *    transaction that has read from them.
 *
 * The final check removes the old keys while all other writes are blocked. It writes nothing itself: if it finds a
 * stale value, another pass reseals and commits it before any key is removed.
 */
type Place = (typeof sealedColumns)[number];

interface SealedRow {
  id: bigint;
  sealed: string;
}

const batchSize = 100;

/** One pass over all rows, in small transactions. */
export async function resealAll(db: Database, vault: Vault): Promise<number> {
  let resealed = 0;
  for (const place of sealedColumns) {
    let last = -1n;
    for (;;) {
      const stale = await findStale(db.read, vault, place, { after: last, limit: batchSize });
      const end = stale.at(-1);
      if (!end) break;
      resealed += await resealRows(db, vault, place, stale);
      last = end.id;
    }
  }
  return resealed;
}

async function resealRows(db: Database, vault: Vault, place: Place, rows: SealedRow[]): Promise<number> {
  const column = sql.ref(place.column);
  return db.transaction(async (trx) => {
    let resealed = 0;
    for (const { id, sealed } of rows) {
      const where = sealedLocation(place, id);
      const fresh = vault.seal(vault.open(sealed, where), where);
      // A value that changed since it was read was sealed by its writer with the new key.
      const { numAffectedRows } = await sql`
        update ${sql.table(place.table)} set ${column} = ${fresh} where id = ${id} and ${column} = ${sealed}
      `.execute(trx);
      resealed += Number(numAffectedRows ?? 0n);
    }
    return resealed;
  });
}

async function findStale(
  db: Queries,
  vault: Vault,
  { table, column }: Place,
  { after, limit }: { after: bigint; limit: number },
): Promise<SealedRow[]> {
  const prefix = vault.currentPrefix();
  const { rows } = await sql<SealedRow>`
    select id, ${sql.ref(column)} as sealed from ${sql.table(table)}
    where id > ${after} and substr(${sql.ref(column)}, 1, ${sql.lit(prefix.length)}) <> ${prefix}
    order by id limit ${sql.lit(limit)}
  `.execute(db);
  return rows;
}

/**
 * Runs `then` if no value is stale, while other transactions cannot write one. Returns false if some values are
 * still stale.
 */
export async function whenNothingIsStale(
  db: Database,
  vault: Vault,
  then: (trx: Transaction) => unknown,
): Promise<boolean> {
  return db.transaction(async (trx) => {
    if (db.kind === 'postgres') {
      const tables = [...new Set(sealedColumns.map((place) => place.table))].map((table) => sql.table(table));
      // All other transactions queue behind this lock, so it must not wait long.
      await sql`set local lock_timeout = '1s'`.execute(trx);
      await sql`lock table ${sql.join(tables)} in access exclusive mode`.execute(trx);
    }
    for (const place of sealedColumns) {
      const stale = await findStale(trx, vault, place, { after: -1n, limit: 1 });
      if (stale.length > 0) return false;
    }
    await then(trx);
    return true;
  });
}

const longestTransaction = 60_000;

export async function olderTransactionsEnded(db: Database): Promise<void> {
  if (db.kind === 'sqlite') return; // see above: the write lock does this
  const open = await openTransactions(db.read);
  const deadline = performance.now() + longestTransaction;
  for (;;) {
    const still = (await openTransactions(db.read)).intersection(open);
    if (still.size === 0) return;
    if (performance.now() > deadline) {
      throw new Error(
        `${still.size} transaction(s) on the database have been open for over a minute and may still write with the ` +
          'old master key. Both keys stay in use. End those transactions and run this again.',
      );
    }
    await pause(50);
  }
}

/** Every transaction locks its own virtual id from its beginning, and every user may see that lock. */
async function openTransactions(db: Queries): Promise<Set<string>> {
  const { rows } = await sql<{ transaction: string }>`
    select held.virtualxid as transaction
    from pg_locks held join pg_stat_activity activity on activity.pid = held.pid
    where held.locktype = 'virtualxid' and held.mode = 'ExclusiveLock' and held.granted
      and held.pid <> pg_backend_pid() and activity.datname = current_database()
      and coalesce(activity.backend_type, 'client backend') = 'client backend'
  `.execute(db);
  return new Set(rows.map((row) => row.transaction));
}
