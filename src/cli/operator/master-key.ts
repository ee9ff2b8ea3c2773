import { existsSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { recordAudit } from '../../server/auth/audit.ts';
import { openVaultOf } from '../../server/db/canary.ts';
import { leaseNode } from '../../server/db/node-lease.ts';
import type { Database, Transaction } from '../../server/db/open.ts';
import { isLockTimeout, olderTransactionsEnded, resealAll, whenNothingIsStale } from '../../server/db/reseal.ts';
import { lockUpkeep, type UpkeepLock } from '../../server/db/upkeep-lock.ts';
import { addMasterKey, dropOldMasterKeys, masterKeyNumbers, type Vault } from '../../shared/lib/vault.ts';
import type { IdSource } from '../../shared/lib/ids.ts';
import type { Call } from './call.ts';
import { onTheMachine } from './machine.ts';
import { databaseUrl, masterKeyFile, openMigrated } from './store.ts';

export async function rotateMasterKey({ config }: Call): Promise<void> {
  const file = masterKeyFile(config);
  if (!existsSync(file)) throw new Error(`there is no master key at ${file}`);
  await using opened = new AsyncDisposableStack();
  const db = await openMigrated(config, console.error);
  opened.defer(() => db.close());
  const lock = await lockUpkeep(databaseUrl(config));
  opened.defer(() => lock.release());
  const lease = await leaseNode(db, console.error);
  opened.defer(() => lease.close());
  console.log(JSON.stringify(await rotate({ db, ids: lease.ids, lock }, file)));
}

interface Rotation {
  db: Database;
  ids: IdSource;
  lock: UpkeepLock;
}

/** May be interrupted: the file has every key in use to the end. An unfinished rotation continues without a new key. */
async function rotate({ db, ids, lock }: Rotation, file: string): Promise<object> {
  const vault = await openVaultOf(db, file); // a key of another database must not get a successor
  if (masterKeyNumbers(file).length === 1) addMasterKey(file);
  const [current, ...old] = masterKeyNumbers(file);
  await olderTransactionsEnded(db);
  const resealed = await untilNothingIsStale(db, vault, async (trx) => {
    const subject = { id: null, name: String(current) };
    await recordAudit(trx, ids, onTheMachine(), { action: 'master_key.rotated', subject });
    lock.check();
    dropOldMasterKeys(file);
  });
  return { master_key: current, resealed, forgotten: old };
}

const mostTries = 60;

async function untilNothingIsStale(db: Database, vault: Vault, then: (trx: Transaction) => unknown): Promise<number> {
  let resealed = 0;
  for (let tries = 0; tries < mostTries; tries += 1) {
    resealed += await resealAll(db, vault);
    try {
      if (await whenNothingIsStale(db, vault, then)) return resealed;
    } catch (error) {
      if (!isLockTimeout(error)) throw error;
      await pause(500);
    }
  }
  throw new Error('the tables were busy for too long, so both keys stay in use. Run this again at a quieter time.');
}
