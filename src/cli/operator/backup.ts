import { existsSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import packageJson from '../../../package.json' with { type: 'json' };
import { recordAudit } from '../../server/auth/audit.ts';
import { checkMasterKey } from '../../server/db/canary.ts';
import { diskReserveBytes, type Config } from '../../shared/config.ts';
import { dumpTables } from '../../server/db/dump.ts';
import { leaseNode } from '../../server/db/node-lease.ts';
import { openDatabase } from '../../server/db/open.ts';
import { openSnapshot, type Snapshot } from '../../server/db/snapshot.ts';
import { lockUpkeep } from '../../server/db/upkeep-lock.ts';
import { formatBytes } from '../../shared/lib/byte-units.ts';
import { writeArchive } from './backup-archive.ts';
import { keepReserve, type DiskReserve } from '../../shared/lib/disk-reserve.ts';
import { blobLines, fileLines, filesToKeep } from './backup-files.ts';
import { tell, type Call } from './call.ts';
import { onTheMachine } from './machine.ts';
import { blobLocation, databaseUrl, masterKeyFile, openBlobs } from './store.ts';

export interface BackupHeader {
  headrace_backup: number;
  program: string;
  created_at: string;
  /** A restore needs the database's migrations. */
  migrations: string[];
  with_keys: boolean;
  /** Where the blobs are, if not in the data folder. `taken`: the backup has their bytes. */
  blobs?: { at: string; taken: boolean };
}

interface Options {
  withoutKeys?: true;
  withBlobs?: true;
}

/** A program restores its own and earlier formats. */
export const backupFormat = 1;

export async function backup(call: Call<Options>, name: string): Promise<void> {
  const { config, options } = call;
  const file = resolve(name);
  const url = databaseUrl(config);
  const withKeys = !options.withoutKeys;
  const settingsFile = options.config ?? join(config.data_dir, 'headrace.toml');
  const counts = { tables: 0, rows: 0, files: 0, blobs: 0, gone: 0 };
  const withBlobs = options.withBlobs === true;
  const elsewhere = config.blob_url === undefined ? undefined : { at: config.blob_url, taken: withBlobs };
  await using opened = new AsyncDisposableStack();
  // The lock comes first: the keys, which are read last, must still open the rows, which are read first.
  const lock = await lockUpkeep(url);
  opened.defer(() => lock.release());
  const snapshot = await openSnapshot(url);
  opened.defer(() => snapshot.close());
  const db = await openDatabase({ url });
  opened.defer(() => db.close());
  // Otherwise a key that does not open the rows would be noticed only when the backup is needed.
  if (withKeys) await checkMasterKey(db.read, masterKeyFile(config));
  await writeArchive(file, whileThereIsRoom(lines(), roomFor(file, config)));
  const lease = await leaseNode(db, console.error);
  opened.defer(() => lease.close());
  const deed = {
    action: 'backup.created',
    subject: { id: null, name: file },
    details: { with_keys: withKeys },
  } as const;
  await db.transaction((trx) => recordAudit(trx, lease.ids, onTheMachine(), deed));

  async function* lines(): AsyncGenerator<string> {
    yield JSON.stringify(await headerOf(snapshot, withKeys, elsewhere));
    yield* dumpTables(snapshot, (rows) => (counts.rows += rows));
    // The database snapshot is fixed before: every file that a row refers to exists by now.
    yield* fileLines(filesToKeep(config, settingsFile, withKeys), () => (counts.files += 1));
    if (elsewhere) yield* blobsElsewhere();
    counts.tables = snapshot.tables.length;
    lock.check();
  }

  async function* blobsElsewhere(): AsyncGenerator<string> {
    const store = await openBlobs(blobLocation(config), { take: async () => {}, room: async () => Infinity });
    try {
      yield* blobLines(store, withBlobs, (isGone) => (counts[isGone ? 'gone' : 'blobs'] += 1));
    } finally {
      await store.close();
    }
  }

  const { size } = statSync(file);
  const how = withBlobs ? 'and included' : 'but not included (--with-blobs includes them): protect them like this file';
  const { rows, tables, files, blobs, gone } = counts;
  tell(
    call,
    {
      file,
      bytes: size,
      rows,
      tables,
      files,
      with_keys: withKeys,
      ...(elsewhere && { blobs, with_blobs: withBlobs, gone }),
    },
    `wrote ${file} (${formatBytes(size)})`,
    `rows: ${rows}, tables: ${tables}, files: ${files}`,
    withKeys ? 'It contains the master key: protect it like the server.' : withoutKeysNote,
    ...(elsewhere ? [`blobs at ${elsewhere.at}: ${blobs} are referenced, ${how}`] : []),
    ...(elsewhere && gone > 0 ? [`${gone} more were deleted during the backup`] : []),
  );
}

/** A backup on the data's disk must not use the server's reserve. A backup on another disk may fill it. */
function roomFor(file: string, config: Config): DiskReserve | undefined {
  const folder = dirname(file);
  const isBeside = existsSync(folder) && statSync(folder).dev === statSync(config.data_dir).dev;
  return isBeside ? keepReserve({ folders: [folder], bytes: diskReserveBytes(config) }) : undefined;
}

async function* whileThereIsRoom(lines: AsyncIterable<string>, disk: DiskReserve | undefined): AsyncGenerator<string> {
  for await (const line of lines) {
    await disk?.take(line.length);
    yield line;
  }
}

const withoutKeysNote =
  'It contains no keys. Store the master key elsewhere: without it, no stored secret can be read again.';

async function headerOf(
  snapshot: Snapshot,
  withKeys: boolean,
  elsewhere: BackupHeader['blobs'],
): Promise<BackupHeader> {
  const shape = snapshot.tables.find((table) => table.name === 'applied_migrations');
  if (!shape) throw new Error('this database has no tables of Headrace');
  const migrations: string[] = [];
  const at = shape.columns.indexOf('name');
  for await (const rows of snapshot.rows(shape)) migrations.push(...rows.map((row) => String(row[at])));
  return {
    headrace_backup: backupFormat,
    program: packageJson.version,
    created_at: new Date().toISOString(),
    migrations,
    with_keys: withKeys,
    ...(elsewhere ? { blobs: elsewhere } : {}),
  };
}
