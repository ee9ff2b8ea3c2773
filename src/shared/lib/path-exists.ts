import { lstat } from 'node:fs/promises';

/** A link is neither file nor directory: it is not followed. */
export async function pathExists(path: string, kind?: 'file' | 'directory'): Promise<boolean> {
  const found = await lstat(path).catch(() => undefined);
  if (found === undefined || kind === undefined) return found !== undefined;
  return kind === 'file' ? found.isFile() : found.isDirectory();
}
