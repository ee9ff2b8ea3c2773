import { lstatSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import type { Machine } from './machine.ts';
import { sandboxRoot, type Base, type RunNamespaces } from './mount-helper.ts';
import { noWorkspace, sandboxPaths } from './types.ts';

/**
 * The root of a sandbox, made in the namespaces of its run. Of the machine it shows programs and libraries, and nothing
 * else: a path that is not named here does not exist for a build.
 *
 * A sandbox is opened on it before its run is known. The workspace, directories and software of the run are mounted on
 * it when the run comes. They appear in the waiting sandbox at once, because the kernel propagates mounts from a shared
 * file system to its bind mounts. Nothing propagates the other way.
 */
export interface SandboxRoot {
  /** The path of a sandbox's place in the namespaces of its run. */
  at(place: string): string;
  /** Settles when the parts for every run are mounted. */
  readonly made: Promise<unknown>;
}

/** The root of every sandbox. */
export function rootLayout(): Pick<Base, 'programs' | 'directories' | 'links'> {
  const { directories: programs, links } = ofTheMachine();
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

const at = (place: string): string => join(sandboxRoot, place);

/** `paths` appear at the same place as on the machine, read-only. */
export function openSandboxRoot(namespaces: RunNamespaces, paths: Machine['paths']): SandboxRoot {
  // Outer ones before those inside them.
  const sorted = paths.toSorted((a, b) => a.at.length - b.at.length);
  const shown = sorted.map(({ at: place, source }) => namespaces.bind(source, at(place), 'ro'));
  return { at, made: Promise.all(shown) };
}

/** The directories of the machine's programs and libraries. */
const neededPrograms = ['usr', 'bin', 'sbin', 'lib', 'lib32', 'lib64', 'libx32'];

interface Programs {
  directories: string[];
  links: Record<string, string>;
}

let known: Programs | undefined;

/**
 * On merged-/usr systems most of these are links; they must be links for the build too, because otherwise paths change
 * their meaning.
 */
function ofTheMachine(): Programs {
  known ??= findPrograms();
  return known;
}

function findPrograms(): Programs {
  const directories: string[] = [];
  const links: Record<string, string> = {};
  for (const name of neededPrograms) {
    const found = lstatSync(join('/', name), { throwIfNoEntry: false });
    if (found?.isSymbolicLink()) links[name] = readlinkSync(join('/', name));
    else if (found) directories.push(name);
  }
  return { directories, links };
}
