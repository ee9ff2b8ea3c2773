import { lstat } from 'node:fs/promises';

/** Whether something is at a path, or something of this kind. A link is neither: it is not followed. */
export async function pathExists(path: string, kind?: 'file' | 'directory'): Promise<boolean> {
  const found = await lstat(path).catch(() => undefined);
  if (found === undefined || kind === undefined) return found !== undefined;
  return kind === 'file' ? found.isFile() : found.isDirectory();
}
