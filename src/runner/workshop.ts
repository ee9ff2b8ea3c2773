import { join } from 'node:path';
import { openCheckouts } from './checkouts.ts';
import { openMirrors, type Mirrors } from './git/mirrors.ts';
import { openSandboxes } from './sandbox/index.ts';
import type { Network } from './sandbox/types.ts';
import type { Workshop } from './work.ts';

export interface WorkshopOptions {
  /** The runner's folder: mirrors, work trees and sandboxes lie in it. */
  folder: string;
  /** How many pieces of work will be done at once. */
  concurrency: number;
  sshConfig?: string | undefined;
  network: Network;
  isolation: 'required' | 'off';
  log: (message: string) => void;
}

/** Opens what the real doing of work needs. Refuses when the machine cannot isolate builds. */
export async function openWorkshop(options: WorkshopOptions): Promise<Workshop> {
  const { folder, network, isolation, log } = options;
  const mirrors = await openMirrors({ dir: join(folder, 'git'), sshConfig: options.sshConfig });
  const stateDir = join(folder, 'sandboxes');
  const sandboxes = await openSandboxes({ stateDir, network, isolation, log, prepare: options.concurrency });
  const checkouts = await openCheckouts(join(folder, 'checkouts'), mirrors, sandboxes.owner);
  const collecting = keepCollecting(mirrors, log);
  return {
    mirrors,
    checkouts,
    sandboxes,
    async close() {
      await sandboxes.close();
      await collecting.stop();
      await mirrors.close();
    },
  };
}

const day = 24 * 60 * 60 * 1000;

/** Mirrors of repositories that nobody builds any more go, at the start and every day. */
function keepCollecting(mirrors: Mirrors, log: (message: string) => void) {
  const stopping = new AbortController();
  let collecting: Promise<void> | undefined;
  const collectOnce = async (): Promise<void> => {
    try {
      await mirrors.collect(undefined, stopping.signal);
    } catch (error) {
      if (!stopping.signal.aborted) log(`old mirrors were not removed: ${String(error)}`);
    }
  };
  const collect = (): void => void (collecting = collectOnce());
  collect();
  const timer = setInterval(collect, day).unref();
  return {
    async stop(): Promise<void> {
      clearInterval(timer);
      stopping.abort();
      await collecting;
    },
  };
}
