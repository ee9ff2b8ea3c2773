import type { DiskReserve } from '../shared/lib/disk-reserve.ts';
import { createSpill } from './spill.ts';

/** The limit on a chunk in memory. */
export const chunkSize = 1024 * 1024;
const firstSize = 4 * 1024;
const mostInFile = 1024 * 1024 * 1024;

/** Unsent output, first in memory and then in a file. Two buffers take turns, so memory use stays constant. */
export class LogBacklog {
  readonly #spill: ReturnType<typeof createSpill>;
  #gathering = Buffer.allocUnsafe(firstSize);
  #onItsWay = Buffer.allocUnsafe(firstSize);
  #gathered = 0;

  constructor(spillFile: string, disk: Pick<DiskReserve, 'allows'>) {
    this.#spill = createSpill(spillFile, disk);
  }

  get isEmpty(): boolean {
    return this.#gathered === 0 && this.#spill.size === 0;
  }

  get isInFile(): boolean {
    return this.#spill.size > 0;
  }

  /** While the file has bytes, no output is gathered in memory, because it would be sent before them. */
  fits({ length }: Uint8Array): boolean {
    return this.#spill.size === 0 && this.#gathered + length <= chunkSize;
  }

  gather(bytes: Uint8Array): void {
    const needed = this.#gathered + bytes.length;
    if (needed > this.#gathering.length) {
      const larger = Buffer.allocUnsafe(Math.min(chunkSize, Math.max(needed, 2 * this.#gathering.length)));
      this.#gathering.copy(larger, 0, 0, this.#gathered);
      this.#gathering = larger;
    }
    this.#gathering.set(bytes, this.#gathered);
    this.#gathered = needed;
  }

  /** Returns whether the file and its disk had room. */
  async spill(bytes: Uint8Array): Promise<boolean> {
    return this.#spill.size + bytes.length <= mostInFile && (await this.#spill.write(bytes));
  }

  /** The oldest bytes, valid until the next call. Bytes in memory are older than bytes in the file. */
  async take(): Promise<Buffer | undefined> {
    if (this.isEmpty) return undefined;
    if (this.#gathered === 0) {
      if (this.#onItsWay.length < chunkSize) this.#onItsWay = Buffer.allocUnsafe(chunkSize);
      return this.#onItsWay.subarray(0, await this.#spill.read(this.#onItsWay));
    }
    const bytes = this.#gathering.subarray(0, this.#gathered);
    [this.#gathering, this.#onItsWay] = [this.#onItsWay, this.#gathering];
    this.#gathered = 0;
    return bytes;
  }

  /** A file that cannot be removed is swept at the next start. */
  close(): Promise<void> {
    return this.#spill.close().catch(() => {});
  }
}
