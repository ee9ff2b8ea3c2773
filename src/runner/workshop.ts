import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Link } from '../protocol.ts';
import { openCheckouts } from './checkouts.ts';
import { openMirrors } from './git/mirrors.ts';
import { removeTree } from './sandbox/area.ts';
import { openSandboxes } from './sandbox/index.ts';
import type { Network } from './sandbox/types.ts';
import { openShelf } from './shelf.ts';
import type { Workshop } from './work.ts';

export interface WorkshopOptions {
  /** The runner's folder: mirrors, work trees and sandboxes lie in it. */
  folder: string;
  /** How many pieces of work will be done at once. */
  concurrency: number;
  sshConfig?: string | undefined;
  network: Network;
  isolation: 'required' | 'off';
  link: Link;
  /** How much compiled software is kept unpacked. */
  shelfBytes: number;
  /** How long git may take for a fetch or a checkout, and how large a checkout may be. */
  fetchTimeoutMs: number;
  checkoutBytes: number;
  log: (message: string) => void;
}

/** Opens what the real doing of work needs. Refuses when the machine cannot isolate builds. */
export async function openWorkshop(options: WorkshopOptions): Promise<Workshop> {
  const { folder, network, isolation, link, log } = options;
  const own = { isolation, prepare: options.concurrency };
  const sandboxes = await openSandboxes({ ...own, stateDir: join(folder, 'sandboxes'), network, log });
  // What git is given by strangers gets a place without a network; ssh stays outside.
  const forGit = (message: string): void => log(`git: ${message}`);
  const gitSandboxes = await openSandboxes({
    ...own,
    stateDir: join(folder, 'git-sandboxes'),
    network: 'none',
    log: forGit,
  });
  const mirrors = await openMirrors({
    dir: join(folder, 'git'),
    sandboxes: gitSandboxes,
    isolation,
    sshConfig: options.sshConfig,
    timeoutMs: options.fetchTimeoutMs,
    checkoutBytes: options.checkoutBytes,
    log,
  });
  const checkouts = await openCheckouts(join(folder, 'checkouts'), mirrors, log);
  const scratch = join(folder, 'scratch');
  await removeTree(scratch);
  await mkdir(scratch, { mode: 0o711 });
  const shelf = await openShelf({ folder: join(folder, 'software'), link, sandboxes, mostBytes: options.shelfBytes });
  return {
    mirrors,
    checkouts,
    sandboxes,
    shelf,
    link,
    scratch,
    async close() {
      await sandboxes.close();
      await gitSandboxes.close();
      await mirrors.close();
    },
  };
}
