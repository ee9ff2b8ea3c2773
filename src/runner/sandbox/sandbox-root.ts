import { lstatSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import type { Machine } from './machine.ts';
import { sandboxRoot, type Base, type RunNamespaces } from './mount-helper.ts';
import { noWorkspace, sandboxPaths } from './types.ts';

/*
 * The root of a sandbox, made in the namespaces of its run. Of the machine it shows programs and libraries, and nothing
 * else: a path that is not named here does not exist for a build.
 *
 * A sandbox is opened on it before its run is known. The workspace, directories and software of the run are mounted on
 * it when the run comes. They appear in the waiting sandbox at once, because the kernel propagates mounts from a shared
 * file system to its bind mounts. Nothing propagates the other way.
 */

/** The root of every sandbox. */
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

/** The path of a sandbox's place in the namespaces of its run. */
export function inRoot(place: string): string {
  return join(sandboxRoot, place);
}

/** Shows directories of the machine at the same place, read-only. */
export async function showPaths(namespaces: RunNamespaces, paths: Machine['paths']): Promise<void> {
  // Outer ones before those inside them.
  const sorted = paths.toSorted((a, b) => a.at.length - b.at.length);
  await Promise.all(sorted.map(({ at, source }) => namespaces.bind(source, inRoot(at), 'ro')));
}

/** The directories of the machine's programs and libraries. */
const neededPrograms = ['usr', 'bin', 'sbin', 'lib', 'lib32', 'lib64', 'libx32'];

/**
 * On merged-/usr systems most of these are links; they must be links for the build too, because otherwise paths change
 * their meaning.
 */
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
