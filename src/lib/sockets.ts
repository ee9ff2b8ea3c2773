import { hash } from 'node:crypto';
import { chmodSync, lstatSync, mkdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** The kernel takes no longer paths for sockets. */
const longestPath = 104;

/** Where a socket of a folder lies: in it, or, when that path is too long, in a folder of its own that nobody else may enter. */
export function socketPath(folder: string, name: string): string {
  const path = join(folder, name);
  if (Buffer.byteLength(path) <= longestPath) return path;
  const short = join(tmpdir(), `headrace-${hash('sha256', folder, 'hex').slice(0, 16)}`);
  mkdirSync(short, { recursive: true, mode: 0o700 });
  const { uid } = lstatSync(short);
  if (uid !== process.getuid?.()) throw new Error(`${short} belongs to somebody else`);
  chmodSync(short, 0o700);
  return join(short, name);
}
