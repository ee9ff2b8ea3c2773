import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { removeTree } from '../lib/remove-tree.ts';
import type { Link } from '../protocol.ts';
import { openCheckouts } from './checkouts.ts';
import { openMirrors } from './git/mirrors.ts';
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
  log: (message: string) => void;
}

/** Opens what the real doing of work needs. Refuses when the machine cannot isolate builds. */
export async function openWorkshop(options: WorkshopOptions): Promise<Workshop> {
  const { folder, network, isolation, link, log } = options;
  const mirrors = await openMirrors({ dir: join(folder, 'git'), sshConfig: options.sshConfig });
  const stateDir = join(folder, 'sandboxes');
  const sandboxes = await openSandboxes({ stateDir, network, isolation, log, prepare: options.concurrency });
  const checkouts = await openCheckouts(join(folder, 'checkouts'), mirrors, sandboxes.owner);
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
      await mirrors.close();
    },
  };
}
