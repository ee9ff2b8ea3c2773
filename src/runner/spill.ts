import { open, rm, type FileHandle } from 'node:fs/promises';
import type { DiskReserve } from '../shared/lib/disk-reserve.ts';

/** A file that is written at its end and read from its start. */
export function createSpill(path: string, disk: Pick<DiskReserve, 'allows'>) {
  let file: FileHandle | undefined;
  let written = 0;
  let read = 0;
  return {
    get size(): number {
      return written - read;
    },
    /** Returns false if the disk lacks room or fails. Then nothing counts as written. */
    async write(bytes: Uint8Array): Promise<boolean> {
      if (!(await disk.allows(bytes.length))) return false;
      try {
        file ??= await open(path, 'w+', 0o600);
        for (let at = 0; at < bytes.length;) {
          at += (await file.write(bytes, at, bytes.length - at, written + at)).bytesWritten;
        }
      } catch {
        return false; // the disk is full or failed
      }
      written += bytes.length;
      return true;
    },
    /** Returns the number of bytes read. */
    async read(into: Buffer): Promise<number> {
      if (!file) return 0;
      const { bytesRead } = await file.read(into, 0, Math.min(into.length, written - read), read);
      read += bytesRead;
      return bytesRead;
    },
    async close(): Promise<void> {
      if (!file) return;
      await file.close();
      await rm(path, { force: true });
    },
  };
}
