import { lstat } from 'node:fs/promises';
import { run } from '../../lib/processes.ts';
import { FetchError } from './failures.ts';

/*
 * How large a checkout may be. A repository of a few kilobytes can hold a tree that fills any disk, so what is written is
 * measured while it is written. Files that are the mirror's, its packs, are not counted.
 */

export interface SizeWatch {
  /** These files lie there too, and do not count. */
  discount(paths: readonly string[]): Promise<void>;
  /** Fires when there is too much, with a reason in words. */
  readonly signal: AbortSignal;
  /** Looks once more. */
  check(): Promise<void>;
  close(): void;
}

const everyMs = 1000;

export function watchSize(folder: string, mostBytes: number): SizeWatch {
  const tooLarge = new AbortController();
  let looking: Promise<void> | undefined;
  const discounted = new Map<string, number>(); // by the file itself: several names of one are counted once
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
      .catch(() => {}) // a look that fails says nothing
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
  // Without patterns to exclude: in a deep tree `du` would take hours to compare every path with them.
  const how = ['--summarize', '--one-file-system', '--block-size=1'];
  const { stdout } = await run('du', [...how, '--', folder], { maxOutput: 4096 });
  return Number.parseInt(stdout.toString(), 10) || 0;
}
