import { lstatSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import type { Machine } from './machine.ts';
import { sandboxRoot, type Base, type RunNamespaces } from './mount-helper.ts';
import { noWorkspace, sandboxPaths } from './types.ts';

/*
 * A sandbox's root shows only the machine's programs and libraries. A path that is not named here does not exist for a
 * build. The sandbox is opened before its run is known. The run's own mounts appear in it later, because the kernel
 * propagates mounts from a shared file system to its bind mounts, but not back.
 */

export function rootLayout(): Pick<Base, 'programs' | 'directories' | 'links'> {
  const { programs, links } = findPrograms();
  return {
    programs,
    directories: [
      '/proc',
      '/tmp',
      '/run',
      '/var',
      '/home',
      sandboxPaths.home,
      sandboxPaths.workspace,
      `${sandboxPaths.workspace}/${noWorkspace}`,
    ],
    links: { ...links, '/var/run': '/run', '/var/tmp': '/tmp' },
  };
}

/** The path in the run's namespaces. */
export function inRoot(place: string): string {
  return join(sandboxRoot, place);
}

/** Shows directories of the machine at the same paths, read-only. */
export async function showPaths(namespaces: RunNamespaces, paths: Machine['paths']): Promise<void> {
  const sorted = paths.toSorted((a, b) => a.at.length - b.at.length);
  await Promise.all(sorted.map(({ at, source }) => namespaces.bind(source, inRoot(at), 'ro')));
}

const neededPrograms = ['usr', 'bin', 'sbin', 'lib', 'lib32', 'lib64', 'libx32'];

/** With a merged /usr most of these are links. They must be links for the build too, or paths change their meaning. */
function findPrograms(): { programs: string[]; links: Record<string, string> } {
  const programs: string[] = [];
  const links: Record<string, string> = {};
  for (const name of neededPrograms) {
    const found = lstatSync(join('/', name), { throwIfNoEntry: false });
    if (found?.isSymbolicLink()) links[name] = readlinkSync(join('/', name));
    else if (found) programs.push(name);
  }
  return { programs, links };
}
