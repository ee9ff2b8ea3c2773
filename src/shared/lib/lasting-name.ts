import { readFile, rename, writeFile } from 'node:fs/promises';
import { randomName } from './random-name.ts';

/** A random secret name, created with its file if missing. */
export async function lastingName(file: string): Promise<string> {
  const known = await readFile(file, 'utf8').catch(() => '');
  if (/^[\w-]{16,64}$/.test(known)) return known;
  const fresh = randomName();
  await writeFile(`${file}.new`, fresh, { mode: 0o600 });
  await rename(`${file}.new`, file);
  return fresh;
}
