import type { Config } from '../../shared/config.ts';
import { unknownMigrations } from '../../server/db/migrate.ts';
import { ArchiveError, readArchive } from './backup-archive.ts';
import { backupFormat, type BackupHeader } from './backup.ts';
import { pathOf, settingsName } from './backup-files.ts';

export interface BackupContents {
  header: BackupHeader;
  rows: number;
  files: Set<string>;
  blobs: number;
  /** The text of headrace.toml, or blank. */
  settings: string;
}

export type BackupRecord =
  | { table: string; columns: string[] }
  | { file: string }
  | { bytes: string }
  | { blob: string; size: number };

export function isRow(line: string): boolean {
  return line.startsWith('[');
}

/** Reads the whole backup and changes nothing. Any defect is an error. */
export async function checkBackup(file: string, config: Config): Promise<BackupContents> {
  let header: BackupHeader | undefined;
  let rows = 0;
  let blobs = 0;
  let current = '';
  const files = new Set<string>();
  const settings: Buffer[] = [];
  for await (const line of readArchive(file)) {
    if (!header) {
      header = readHeader(line, file);
    } else if (isRow(line)) {
      rows += 1;
    } else {
      const record = parseObject(line, file) as BackupRecord;
      if ('file' in record) {
        if (pathOf(record.file, config) === undefined) {
          throw new Error(`${file} contains a file that no Headrace backup has: ${JSON.stringify(record.file)}`);
        }
        current = record.file;
        files.add(current);
      } else if ('blob' in record) {
        blobs += 1;
      } else if ('bytes' in record && current === settingsName) {
        settings.push(Buffer.from(record.bytes, 'base64'));
      }
    }
  }
  if (!header) throw new Error(`${file} is empty`);
  return { header, rows, files, blobs, settings: Buffer.concat(settings).toString() };
}

function readHeader(line: string, file: string): BackupHeader {
  const header = parseObject(line, file) as Partial<BackupHeader>;
  if (typeof header.headrace_backup !== 'number') throw new Error(`${file} is not a backup of Headrace`);
  const unknown = unknownMigrations(header.migrations ?? []);
  if (header.headrace_backup > backupFormat || unknown.length > 0) {
    throw new Error(
      `${file} was made by a newer headrace (${header.program}): restore it with that one or a later one`,
    );
  }
  return header as BackupHeader;
}

/** Finds damage in the middle before the checksum at the end. */
function parseObject(line: string, file: string): object {
  try {
    return Object(JSON.parse(line)) as object;
  } catch {
    throw new ArchiveError(file, 'is not a complete backup: one of its lines cannot be read');
  }
}
