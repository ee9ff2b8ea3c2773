import { lstat } from 'node:fs/promises';

/** Links are not followed, so a link counts as no file and no directory. */
export async function pathExists(path: string, kind?: 'file' | 'directory'): Promise<boolean> {
  const found = await lstat(path).catch(() => undefined);
  if (found === undefined || kind === undefined) return found !== undefined;
  return kind === 'file' ? found.isFile() : found.isDirectory();
}
