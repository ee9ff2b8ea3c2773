import { randomName } from '../../lib/random-name.ts';
import type { Machine } from './machine.ts';
import { openSandbox, type Probably, type Sandbox } from './sandbox.ts';
import type { Job, SandboxOptions } from './types.ts';

/** Sandboxes that wait for their run. Each serves one run; the next sandbox is opened when it is over. */
export interface Pool {
  use<T>(job: Job, work: (sandbox: Sandbox) => Promise<T>): Promise<T>;
  /** Opens this many ahead, from now on. */
  prepare(count: number): Promise<void>;
  close(): Promise<void>;
}

export function openPool(machine: Machine, log: SandboxOptions['log']): Pool {
  const ready: Promise<Sandbox>[] = [];
  const chores = new Set<Promise<unknown>>();
  let ahead = 0;
  let closing = false;
  let usual: Probably | undefined;
  let lastImage: string | undefined;

  const chore = (work: Promise<unknown>): void => {
    const done = work.finally(() => chores.delete(done));
    chores.add(done);
  };
  const discard = (sandbox: Sandbox): Promise<void> =>
    sandbox.close().catch((error: unknown) => log(`cleanup of a sandbox failed: ${String(error)}`));
  const open = (): Promise<Sandbox> => openSandbox(machine, randomName(), usual);
  const openAhead = (): void => {
    if (closing) return;
    while (ready.length < ahead) {
      const opening = open();
      // The run that needs one gets the error.
      opening.catch(() => void ready.splice(ready.indexOf(opening), ready.includes(opening) ? 1 : 0));
      ready.push(opening);
    }
  };
  /** A waiting sandbox may have died meanwhile. */
  const take = async (): Promise<Sandbox> => {
    const waiting = await ready.shift()?.catch(() => undefined);
    if (waiting?.process.isWaiting()) return waiting;
    if (waiting) chore(discard(waiting));
    return open();
  };
  return {
    use: async (job, work) => {
      usual = likeThis(job, machine, lastImage);
      lastImage = job.image;
      const sandbox = await take();
      try {
        return await work(sandbox);
      } finally {
        openAhead();
        chore(discard(sandbox));
      }
    },
    prepare: async (count) => {
      ahead = count;
      openAhead();
      await Promise.all(ready);
    },
    close: async () => {
      closing = true;
      for (const opening of ready.splice(0)) chore(opening.then(discard, () => {}));
      await Promise.all(chores);
    },
  };
}

/** Two runs in the same image make a third probable. One does not: a wrong guess costs most of what a right one saves. */
function likeThis(
  { limits, image, mounts = [], overImage = [] }: Job,
  { paths }: Machine,
  lastImage?: string,
): Probably {
  if (image === undefined) return { limits };
  const isPlain = mounts.length + overImage.length + paths.length === 0;
  return { limits, image: isPlain && image === lastImage ? { tree: image } : {} };
}
