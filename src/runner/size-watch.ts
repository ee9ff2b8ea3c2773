import { lstat } from 'node:fs/promises';
import { repeatedly } from '../shared/lib/repeatedly.ts';
import { treeSize } from '../shared/lib/tree-size.ts';

/* An untrusted tree is measured while it is written, because a few packed kilobytes can unpack to a full disk. */

export interface SizeWatch {
  /** Excludes these files of the tree from the measurement. */
  discount(paths: readonly string[]): Promise<void>;
  /** Aborted with the given reason when the tree is too large. */
  readonly signal: AbortSignal;
  check(): Promise<void>;
  close(): void;
}

const everyMs = 1000;

export function watchSize(folder: string, mostBytes: number, reason: Error): SizeWatch {
  const tooLarge = new AbortController();
  const discounted = new Map<string, number>(); // by inode, because several names of one file count once
  const measure = async (): Promise<void> => {
    const discount = Array.from(discounted.values()).reduce((sum, bytes) => sum + bytes, 0);
    if ((await treeSize(folder)) - discount > mostBytes) tooLarge.abort(reason);
  };
  const measuring = repeatedly(everyMs, measure, () => {}); // the next measurement may succeed
  return {
    signal: tooLarge.signal,
    discount: async (paths) => {
      for (const path of paths) {
        const { dev, ino, blocks } = await lstat(path);
        discounted.set(`${dev}:${ino}`, blocks * 512);
      }
    },
    check: async () => {
      await measure();
      tooLarge.signal.throwIfAborted();
    },
    close: () => void measuring.stop(),
  };
}
