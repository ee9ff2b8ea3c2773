import { lstatSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import { sandboxRoot, type Base, type RunNamespaces } from './mount-helper.ts';
import { noWorkspace, places } from './types.ts';

/**
 * The root of what a sandbox sees, laid out in the namespaces of its run. Of the machine it shows programs and libraries,
 * and nothing else: what is not named here does not exist for a build.
 *
 * A sandbox is opened on it before anybody knows what will run there. What the run needs, its workspace, its directories
 * and its software, is mounted on it once the run comes, and shows in the waiting sandbox at once, because the kernel
 * passes mounts on from a shared file system to those that were bound from it. Nothing passes the other way.
 */
export interface SandboxRoot {
  /** Where a place of the sandbox is, in the namespaces of its run. */
  at(place: string): string;
  /** Settles when everything shows in it that does so for every run. */
  readonly made: Promise<unknown>;
}

/** What is in the root of every sandbox. */
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
      places.home,
      places.workspace,
      `${places.workspace}/${noWorkspace}`,
    ],
    links: { ...links, '/var/run': '/run', '/var/tmp': '/tmp' },
  };
}

const at = (place: string): string => join(sandboxRoot, place);

/** `paths` are shown as they are on the machine, and only to be read. */
export function openSandboxRoot(namespaces: RunNamespaces, paths: readonly string[]): SandboxRoot {
  // Outer ones before those inside them.
  const shown = paths.toSorted((a, b) => a.length - b.length).map((one) => namespaces.bind(one, at(one), 'ro'));
  return { at, made: Promise.all(shown) };
}

/** Where the machine has its programs and libraries. */
const neededPrograms = ['usr', 'bin', 'sbin', 'lib', 'lib32', 'lib64', 'libx32'];

interface Programs {
  directories: string[];
  links: Record<string, string>;
}

let known: Programs | undefined;

/** On merged-/usr systems most of these are links; they must be links for the build too, or paths change their meaning. */
function ofTheMachine(): Programs {
  known ??= lookUp();
  return known;
}

function lookUp(): Programs {
  const directories: string[] = [];
  const links: Record<string, string> = {};
  for (const name of neededPrograms) {
    const found = lstatSync(join('/', name), { throwIfNoEntry: false });
    if (found?.isSymbolicLink()) links[name] = readlinkSync(join('/', name));
    else if (found) directories.push(name);
  }
  return { directories, links };
}
