import { constants } from 'node:fs';
import { access } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { NotIsolatedError, withoutIsolation } from '../../shared/domain/isolation.ts';
import type { Cgroup } from './cgroup-files.ts';
import { findCgroups } from './cgroups.ts';
import type { BuildUsers } from './identity.ts';
import type { MountHelper, NamespacePaths } from './mount-helper.ts';
import type { Outside } from './network.ts';
import type { State } from './state.ts';
import type { Identity, Network, SandboxOptions } from './types.ts';

export interface Machine {
  users: BuildUsers;
  mountHelper: MountHelper;
  stateDir: string;
  etc: string;
  /** The layer over the files of every image whose root is this owner. */
  overImages(root: Identity): string;
  /** Further directories that runs see, with their real paths at the start. */
  paths: readonly { at: string; source: string }[];
  network: Network;
  /** Whether workspaces can be overlays on a checkout. If not, they are copies. */
  overlay: boolean;
  makeCgroup(run: string): Cgroup | null;
  /** Undefined if runs have no access to the outside, or use the machine's own network. */
  connect: ((namespaces: NamespacePaths) => Promise<Outside>) | undefined;
}

const neededPrograms: Record<string, { package: string; for: (network: Network) => boolean }> = {
  bwrap: { package: 'bubblewrap', for: () => true },
  perl: { package: 'perl-base', for: () => true },
  unshare: { package: 'util-linux', for: () => true },
  setpriv: { package: 'util-linux', for: () => true },
  nsenter: { package: 'util-linux', for: (network) => network === 'internet' },
  bsdtar: { package: 'libarchive-tools', for: () => true },
  slirp4netns: { package: 'slirp4netns', for: (network) => network === 'internet' },
  nft: { package: 'nftables', for: (network) => network === 'internet' },
};

/** Throws an error that names the missing programs and how to install them. */
export async function requirePrograms(network: Network): Promise<void> {
  const missing: string[] = [];
  for (const [program, need] of Object.entries(neededPrograms)) {
    if (need.for(network) && !(await present(program))) missing.push(program);
  }
  if (missing.length === 0) return;
  const packages = [...new Set(missing.map((program) => neededPrograms[program]?.package))].join(' ');
  const way =
    network === 'internet' && !missing.includes('bwrap')
      ? ', or run builds without a network (HEADRACE_BUILD_NETWORK=none)'
      : '';
  throw new NotIsolatedError(
    `${missing.join(', ')} not found. Install with: apt-get install ${packages}${way}. ` +
      `To try Headrace without isolation: ${withoutIsolation}`,
  );
}

export async function present(program: string): Promise<boolean> {
  const folders = new Set([...(process.env.PATH ?? '').split(delimiter), '/usr/sbin', '/usr/bin', '/sbin', '/bin']);
  for (const folder of folders) {
    const found = await access(join(folder, program), constants.X_OK).then(
      () => true,
      () => false,
    );
    if (found) return true;
  }
  return false;
}

export async function cgroupMaker(state: State, log: SandboxOptions['log']): Promise<Machine['makeCgroup']> {
  const tree = await findCgroups();
  log(
    tree?.description ??
      'control groups cannot be written by this user: limits on memory and processes apply per process and per user, not per build',
  );
  if (!tree) return () => null;
  const name = `headrace-${state.name}`;
  await state.noteGroups(tree.paths(name)); // before they are made: a kill in between would leave them for ever
  return tree.open(name);
}
