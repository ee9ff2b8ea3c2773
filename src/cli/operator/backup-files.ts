import { createReadStream, existsSync, readdirSync } from 'node:fs';
import { join, sep } from 'node:path';
import type { Config } from '../../shared/config.ts';
import { piecesOf, type Blobs } from '../../server/db/blobs.ts';
import { openIfThere } from './placer.ts';
import { masterKeyFile } from './store.ts';

export const masterKeyName = 'master.key';
export const settingsName = 'headrace.toml';
const tlsNames = ['tls/key.pem', 'tls/cert.pem'];
const blobs = 'blobs/';

export function filesToKeep(config: Config, settingsFile: string, withKeys: boolean): Map<string, string> {
  const keys: [string, string][] = [
    [masterKeyName, masterKeyFile(config)],
    ...tlsNames.map((name): [string, string] => [name, join(config.data_dir, name)]),
  ];
  const files: [string, string][] = [...(withKeys ? keys : []), [settingsName, settingsFile], ...blobFiles(config)];
  return new Map(files.filter(([, path]) => existsSync(path)));
}

/** Blobs elsewhere are only named (see blobLines). */
function blobFiles(config: Config): [string, string][] {
  if (config.blob_url !== undefined) return [];
  const folder = join(config.data_dir, blobs);
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => {
      const path = join(entry.parentPath, entry.name);
      return [blobs + path.slice(folder.length).split(sep).join('/'), path];
    });
}

/** An object that names a file, then its bytes in pieces. */
export async function* fileLines(files: Map<string, string>, onFile: () => void): AsyncGenerator<string> {
  for (const [name, path] of files) {
    yield JSON.stringify({ file: name });
    yield* byteLines(createReadStream(path));
    onFile();
  }
}

async function* byteLines(pieces: AsyncIterable<Buffer>): AsyncGenerator<string> {
  for await (const piece of pieces) yield JSON.stringify({ bytes: piece.toString('base64') });
}

/** An object that names each blob, and its bytes if the backup includes them. */
export async function* blobLines(
  store: Blobs,
  areTaken: boolean,
  onBlob: (isGone: boolean) => void,
): AsyncGenerator<string> {
  for await (const { digest, size } of store.list()) {
    await using blob = areTaken ? await openIfThere(store, digest) : undefined;
    const isGone = areTaken && !blob;
    onBlob(isGone);
    if (isGone) continue;
    yield JSON.stringify({ blob: digest, size });
    if (!blob) continue;
    yield JSON.stringify({ file: `${blobs}${digest.slice(0, 2)}/${digest}` });
    yield* byteLines(piecesOf(blob));
  }
}

export function digestIn(name: string): string | undefined {
  return /^blobs\/[0-9a-f]{2}\/([0-9a-f]{64})$/.exec(name)?.[1];
}

/** Undefined for an unknown name, which could be any path. */
export function pathOf(name: string, config: Config): string | undefined {
  if (name === masterKeyName) return masterKeyFile(config);
  if (name === settingsName || tlsNames.includes(name)) return join(config.data_dir, name);
  const inside = name.startsWith(blobs) && name.split('/').every((part) => !['', '.', '..'].includes(part));
  return inside && !name.includes('\0') ? join(config.data_dir, name) : undefined;
}
