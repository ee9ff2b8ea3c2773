import { open, rm, type FileHandle } from 'node:fs/promises';

/** A file that is written at its end and read from its start. */
export function createSpill(path: string) {
  let file: FileHandle | undefined;
  let written = 0;
  let read = 0;
  return {
    get size(): number {
      return written - read;
    },
    async write(bytes: Uint8Array): Promise<void> {
      file ??= await open(path, 'w+', 0o600);
      await file.write(bytes, 0, bytes.length, written);
      written += bytes.length;
    },
    /** Reads as much as there is and fits; answers how much that was. */
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
