import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { parse as parseToml } from 'smol-toml';
import type { Config } from '../../shared/config.ts';
import type { Blobs } from '../../server/db/blobs.ts';
import { checkMasterKey } from '../../server/db/canary.ts';
import { readRow } from '../../server/db/dump.ts';
import { startLoading, tablesOf, type Loader } from '../../server/db/load.ts';
import { recordAudit } from '../../server/auth/audit.ts';
import { openDatabase, type Database, type Transaction } from '../../server/db/open.ts';
import { readArchive } from './backup-archive.ts';
import { firstIdAt } from '../../shared/lib/ids.ts';
import { digestIn, masterKeyName, pathOf, settingsName } from './backup-files.ts';
import { compared } from './blobs.ts';
import { checkBackup, isRow, type BackupContents, type BackupRecord } from './check-backup.ts';
import { tell, type Call } from './call.ts';
import { onTheMachine } from './machine.ts';
import { RestoredFiles } from './placer.ts';
import { blobLocation, databaseUrl, makeDataFolder, masterKeyFile, openBlobs } from './store.ts';

export async function restore(call: Call, name: string): Promise<void> {
  const { config, options } = call;
  const file = resolve(name);
  const contents = await checkBackup(file, config);
  refuseKeys(config, contents);
  makeDataFolder(config.data_dir);
  const settingsPath = pathOfSettings(config, contents, options.config);
  await using opened = new AsyncDisposableStack();
  const db = await openDatabase({ url: databaseUrl(config) });
  opened.defer(() => db.close());
  const usesStore = config.blob_url !== undefined || contents.blobs > 0;
  const blobs = usesStore
    ? await openBlobs(blobLocation(config), { take: async () => {}, room: async () => Infinity })
    : undefined;
  opened.defer(() => blobs?.close());
  await blobs?.prove();
  await refuseFullDatabase(db, config);
  await apply(db, { file, config, contents, settingsPath, blobs });
  const missing = blobs && contents.blobs > 0 ? await missingBlobs(file, blobs) : undefined;
  const settings = contents.files.has(settingsName) && settingsPath.endsWith('.restored') ? settingsPath : undefined;
  tell(
    call,
    {
      file,
      data_dir: config.data_dir,
      rows: contents.rows,
      files: contents.files.size,
      ...(missing !== undefined && { blobs: contents.blobs, missing_blobs: missing }),
      settings: settings ?? null,
    },
    ...(missing === undefined ? [] : linesOf(contents, missing)),
    `restored ${file} into ${config.data_dir}`,
    `rows: ${contents.rows}, files: ${contents.files.size}`,
    ...(settings === undefined ? [] : [`The settings of the backup were not applied; they are in ${settings}`]),
  );
}

function refuseKeys(config: Config, { files }: BackupContents): void {
  const keyFile = masterKeyFile(config);
  const present = existsSync(keyFile);
  if (files.has(masterKeyName) && present) {
    throw new Error(
      `${keyFile} exists already, and the backup contains its own. Restore into a new folder (--data-dir), or move ` +
        'that file away if nothing needs it any longer.',
    );
  }
  if (!files.has(masterKeyName) && !present) {
    throw new Error(
      `this backup was made without keys. Put the master key that belongs to it at ${keyFile}, then run this again.`,
    );
  }
}

async function refuseFullDatabase(db: Database, config: Config): Promise<void> {
  if ((await tablesOf(db)).length === 0) return;
  const isInFolder = config.database_url === undefined;
  const where = isInFolder ? databaseUrl(config) : 'the PostgreSQL database';
  const instead = isInFolder ? 'a new folder (--data-dir)' : 'a database that was just created';
  throw new Error(`${where} is not empty. Restore into ${instead}; nothing was changed.`);
}

/**
 * Existing settings stay. Restored ones that name another database or key would lead the next start away from the data.
 */
function pathOfSettings(config: Config, { settings, header }: BackupContents, configFlag: string | undefined): string {
  const path = join(config.data_dir, settingsName);
  const { database_url: url, master_key_file: key, blob_url: blobs } = parseToml(settings);
  const leadsAway =
    (url !== undefined && url !== config.database_url) ||
    (key !== undefined && key !== config.master_key_file) ||
    (blobs !== undefined && blobs !== config.blob_url && header.blobs?.taken === true);
  return existsSync(path) || configFlag !== undefined || leadsAway ? `${path}.restored` : path;
}

interface Plan {
  file: string;
  config: Config;
  contents: BackupContents;
  settingsPath: string;
  blobs: Blobs | undefined;
}

/** Checks the blob storage that this restore's settings name. */
async function missingBlobs(file: string, blobs: Blobs): Promise<number> {
  let missing = 0;
  for await (const { isThere } of compared(blobsNamedIn(file), blobs.list())) if (!isThere) missing += 1;
  return missing;
}

function linesOf({ header, blobs: named }: BackupContents, missing: number): string[] {
  const all = `blobs: ${named} are referenced, ${named - missing} are present`;
  if (missing === 0) return [all];
  const way =
    `${missing} blobs are missing. When the backup was made, they were at ${header.blobs?.at}: set blob_url to that, ` +
    'or bring them from there with: headrace blobs copy';
  return [all, way];
}

async function* blobsNamedIn(file: string): AsyncGenerator<{ digest: string; size: number }> {
  for await (const line of readArchive(file)) {
    if (!line.startsWith('{"blob":')) continue;
    const { blob, size } = JSON.parse(line) as { blob: string; size: number };
    yield { digest: blob, size };
  }
}

/** The files are written before the rows are committed: a database never exists without the key that opens it. */
async function apply(db: Database, plan: Plan): Promise<void> {
  const placer = new RestoredFiles();
  try {
    await db.transaction(async (trx) => {
      await placer.undo(); // after an attempt that the database had to repeat
      const loader = await startLoading(trx, db, plan.contents.header.migrations);
      for await (const { line, bytes } of entriesIn(plan.file)) {
        if (isRow(line)) await loader.add(readRow(line));
        else await takeRecord(JSON.parse(line) as BackupRecord, bytes, { loader, placer, plan });
      }
      await loader.finish();
      // A key of other data is noticed now, and not in a month.
      await checkMasterKey(trx, masterKeyFile(plan.config));
      await noteRestore(trx, plan);
    });
  } catch (error) {
    await placer.undo();
    throw error;
  }
}

async function* entriesIn(file: string): AsyncGenerator<{ line: string; bytes: AsyncIterable<Buffer> }> {
  const lines = readArchive(file);
  try {
    await lines.next();
    let next = await lines.next();
    async function* bytes(): AsyncGenerator<Buffer> {
      for (; next.done !== true && next.value.startsWith('{"bytes":'); next = await lines.next())
        yield Buffer.from((JSON.parse(next.value) as { bytes: string }).bytes, 'base64');
    }
    while (next.done !== true) {
      const { value: line } = next;
      next = await lines.next();
      yield { line, bytes: bytes() };
      for await (const _ of bytes()); // skips the bytes of a blob that was there before
    }
  } finally {
    await lines.return(undefined);
  }
}

/** No other process uses this database yet, so the ID only has to exceed all those in the backup. */
async function noteRestore(trx: Transaction, { file, contents }: Plan): Promise<void> {
  const newest = trx.selectFrom('audit_entries').select('id').orderBy('id', 'desc').limit(1);
  const { id = -1n } = (await newest.executeTakeFirst()) ?? {};
  const now = firstIdAt(Date.now());
  const ids = { next: () => (id < now ? now : id + 1n) };
  const subject = { id: null, name: file };
  const details = { made_at: contents.header.created_at };
  await recordAudit(trx, ids, onTheMachine(), { action: 'backup.restored', subject, details });
}

async function takeRecord(
  record: BackupRecord,
  bytes: AsyncIterable<Buffer>,
  { loader, placer, plan: { config, blobs, settingsPath } }: { loader: Loader; placer: RestoredFiles; plan: Plan },
): Promise<void> {
  if ('table' in record) return loader.begin({ name: record.table, columns: record.columns });
  if (!('file' in record)) return undefined;
  const digest = config.blob_url === undefined ? undefined : digestIn(record.file);
  if (digest !== undefined && blobs) return placer.blob(blobs, digest, bytes);
  const path = record.file === settingsName ? settingsPath : pathOf(record.file, config);
  return path === undefined ? undefined : placer.file(path, bytes);
}
