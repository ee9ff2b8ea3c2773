import { hash } from 'node:crypto';
import { chmodSync, lstatSync, mkdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** The kernel accepts no longer socket paths. */
const longestPath = 104;

/** If the path in the folder is too long, it is in a new folder that only this user may enter. */
export function socketPath(folder: string, name: string): string {
  const path = join(folder, name);
  if (Buffer.byteLength(path) <= longestPath) return path;
  const short = join(tmpdir(), `headrace-${hash('sha256', folder, 'hex').slice(0, 16)}`);
  mkdirSync(short, { recursive: true, mode: 0o700 });
  const { uid } = lstatSync(short);
  if (uid !== process.getuid?.()) throw new Error(`${short} belongs to another user`);
  chmodSync(short, 0o700);
  return join(short, name);
}
