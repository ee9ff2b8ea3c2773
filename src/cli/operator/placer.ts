import { mkdir, open, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Blob, Blobs } from '../../server/db/blobs.ts';
import { codeOf } from '../../shared/lib/error-code.ts';

/** Can undo what it wrote. Existing files stay. */
export class RestoredFiles {
  readonly #undoing: (() => Promise<unknown>)[] = [];

  async file(path: string, bytes: AsyncIterable<Buffer>): Promise<void> {
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    await using file = await open(path, 'wx', 0o600);
    this.#undoing.push(() => rm(path, { force: true }));
    await file.writeFile(bytes);
    await file.sync();
  }

  async blob(store: Blobs, digest: string, bytes: AsyncIterable<Buffer>): Promise<void> {
    await using known = await openIfThere(store, digest);
    if (known) return;
    this.#undoing.push(() => store.remove(digest, async () => false));
    await store.put(bytes, digest);
  }

  async undo(): Promise<void> {
    for (const takeBack of this.#undoing.splice(0)) await takeBack();
  }
}

export async function openIfThere(store: Blobs, digest: string): Promise<Blob | undefined> {
  return store.open(digest).catch((error: unknown) => {
    if (codeOf(error) !== 'ENOENT') throw error;
    return undefined;
  });
}
