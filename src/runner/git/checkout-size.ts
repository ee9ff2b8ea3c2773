import { run } from '../../lib/processes.ts';
import { FetchError } from './failures.ts';

/*
 * How large a checkout may be. A repository of a few kilobytes can hold a tree that fills any disk, so what is written is
 * measured while it is written. The packs are not counted: they are the mirror's.
 */

export interface SizeWatch {
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
  const look = async (): Promise<void> => {
    if ((await sizeOf(folder)) <= mostBytes) return;
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
    check: async () => {
      await look();
      tooLarge.signal.throwIfAborted();
    },
    close: () => clearInterval(timer),
  };
}

async function sizeOf(folder: string): Promise<number> {
  const how = ['--summarize', '--one-file-system', '--block-size=1', '--exclude=.git/objects/pack'];
  const { stdout } = await run('du', [...how, '--', folder], { maxOutput: 4096 });
  return Number.parseInt(stdout.toString(), 10) || 0;
}
