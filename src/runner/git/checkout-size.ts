import { lstat } from 'node:fs/promises';
import { run } from '../../lib/processes.ts';
import { FetchError } from './failures.ts';

/*
 * The size limit of a checkout. A repository of a few kilobytes can hold a tree that fills any disk, so the tree is
 * measured while it is written. The mirror's packs do not count.
 */

export interface SizeWatch {
  /** These files are there too, and do not count. */
  discount(paths: readonly string[]): Promise<void>;
  /** Aborted when the checkout is too large, with a reason in words. */
  readonly signal: AbortSignal;
  /** Measures once more. */
  check(): Promise<void>;
  close(): void;
}

const everyMs = 1000;

export function watchSize(folder: string, mostBytes: number): SizeWatch {
  const tooLarge = new AbortController();
  let looking: Promise<void> | undefined;
  const discounted = new Map<string, number>(); // by inode: several names of one file count once
  const look = async (): Promise<void> => {
    const discount = Array.from(discounted.values()).reduce((sum, bytes) => sum + bytes, 0);
    if ((await sizeOf(folder)) - discount <= mostBytes) return;
    const message =
      `The files of this commit take more than the ${Math.floor(mostBytes / 1024 ** 2)} MB that a checkout may have ` +
      '(HEADRACE_CHECKOUT_SIZE). Make it smaller, or have an operator allow more.';
    tooLarge.abort(new FetchError('checkout_too_large', message));
  };
  const timer = setInterval(() => {
    looking ??= look()
      .catch(() => {}) // a failed measurement says nothing
      .finally(() => (looking = undefined));
  }, everyMs);
  return {
    signal: tooLarge.signal,
    discount: async (paths) => {
      for (const path of paths) {
        const { dev, ino, blocks } = await lstat(path);
        discounted.set(`${dev}:${ino}`, blocks * 512);
      }
    },
    check: async () => {
      await look();
      tooLarge.signal.throwIfAborted();
    },
    close: () => clearInterval(timer),
  };
}

async function sizeOf(folder: string): Promise<number> {
  // Without exclude patterns: in a deep tree `du` would take hours to compare every path with them.
  const how = ['--summarize', '--one-file-system', '--block-size=1'];
  const { stdout } = await run('du', [...how, '--', folder], { maxOutput: 4096 });
  return Number.parseInt(stdout.toString(), 10) || 0;
}
