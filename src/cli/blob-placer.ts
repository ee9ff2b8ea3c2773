import { PassThrough } from 'node:stream';
import type { Blobs } from '../db/blobs.ts';

/** Stores the blobs of a backup, checked by their digests, and can undo it. What was there before stays. */
export class BlobPlacer {
  readonly #store: Blobs;
  readonly #placed: string[] = [];
  #open: { stream: PassThrough; stored: Promise<unknown> } | undefined;
  #isSkipped = false;

  constructor(store: Blobs) {
    this.#store = store;
  }

  async begin(digest: string): Promise<void> {
    await this.end();
    this.#isSkipped = await this.#has(digest);
    if (this.#isSkipped) return;
    const stream = new PassThrough();
    const stored = this.#store.put(stream, digest);
    stored.catch(() => stream.destroy()); // whoever waits for it gets the error
    this.#open = { stream, stored };
    this.#placed.push(digest);
  }

  /** Answers false where no blob is open. */
  async write(bytes: Buffer): Promise<boolean> {
    if (!this.#open) return this.#isSkipped;
    const { stream, stored } = this.#open;
    if (stream.write(bytes)) return true;
    const { promise: drained, resolve } = Promise.withResolvers<void>();
    stream.once('drain', resolve);
    await Promise.race([drained, stored]);
    return true;
  }

  async end(): Promise<void> {
    this.#isSkipped = false;
    const open = this.#open;
    this.#open = undefined;
    open?.stream.end();
    await open?.stored;
  }

  async undo(): Promise<void> {
    this.#open?.stream.destroy(new Error('the restore was given up'));
    await this.#open?.stored.catch(() => {});
    this.#open = undefined;
    for (const digest of this.#placed.splice(0)) await this.#store.remove(digest, async () => false);
  }

  async #has(digest: string): Promise<boolean> {
    try {
      await using _ = await this.#store.open(digest);
      return true;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
      return false;
    }
  }
}
