import { randomName } from '../../shared/lib/random-name.ts';
import type { Machine } from './machine.ts';
import { openSandbox, type Who, type Sandbox } from './sandbox.ts';
import { rootUser, type Job, type SandboxOptions } from './types.ts';

/** Sandboxes that wait for their run. Each serves one run; the next one is opened when it is over. */
export interface Pool {
  use<T>(job: Job, work: (sandbox: Sandbox) => Promise<T>): Promise<T>;
  /** Closes a used sandbox while others continue. */
  discard(sandbox: Sandbox): void;
  prepare(count: number): Promise<void>;
  close(): Promise<void>;
}

interface ReadySandbox {
  who: string;
  opening: Promise<Sandbox>;
}

export function openPool(machine: Machine, log: SandboxOptions['log']): Pool {
  let ready: ReadySandbox[] = [];
  const chores = new Set<Promise<unknown>>();
  let ahead = 0;
  let closing = false;
  let usual: Who = {};

  const chore = (work: Promise<unknown>): void => {
    const done = work.finally(() => chores.delete(done));
    chores.add(done);
  };
  const close = (sandbox: Sandbox): Promise<void> =>
    sandbox.close().catch((error: unknown) => log(`cleanup of a sandbox failed: ${String(error)}`));
  const dismiss = (some: readonly ReadySandbox[]): void => {
    ready = ready.filter((one) => !some.includes(one));
    for (const { opening } of some) chore(opening.then(close, () => {}));
  };
  const openAhead = (): void => {
    if (closing) return;
    const who = nameOf(usual);
    // The next run is probably like the last one. Sandboxes for another user could wait forever.
    dismiss(ready.filter((one) => one.who !== who));
    while (ready.length < ahead) {
      const one = { who, opening: openSandbox(machine, randomName(), usual) };
      // A run that then opens its own sandbox gets the error.
      one.opening.catch(() => void (ready = ready.filter((other) => other !== one)));
      ready.push(one);
    }
  };
  /** Opens a new sandbox if none is waiting for this user, or if the waiting one has died. */
  const take = async (wanted: Who): Promise<Sandbox> => {
    const found = ready.find(({ who }) => who === nameOf(wanted));
    ready = ready.filter((one) => one !== found);
    const waiting = await found?.opening.catch(() => undefined);
    if (waiting?.process.isWaiting()) return waiting;
    if (waiting) chore(close(waiting));
    return openSandbox(machine, randomName(), wanted);
  };
  return {
    use: async ({ user, image, buildsImages }, work) => {
      const wanted = { user, buildsImages };
      // Between runs, the runner works as root itself. That work does not predict the next run.
      if (user !== rootUser || image !== undefined) usual = wanted;
      const sandbox = await take(wanted);
      try {
        return await work(sandbox);
      } finally {
        openAhead();
        chore(close(sandbox));
      }
    },
    discard: (sandbox) => chore(close(sandbox)),
    prepare: async (count) => {
      ahead = count;
      openAhead();
      await Promise.all(ready.map(({ opening }) => opening));
    },
    close: async () => {
      closing = true;
      dismiss(ready);
      await Promise.all(chores);
    },
  };
}

function nameOf({ user, buildsImages }: Who): string {
  return user ? [buildsImages ? 'images' : '', user.uid, user.gid, ...user.groups].join(' ') : '';
}
