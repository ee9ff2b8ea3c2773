import { join } from 'node:path';
import { HELPER_DIRECTORY, type RunNamespaces } from './mount-helper.ts';
import type { SandboxRoot } from './sandbox-root.ts';
import { PLACES, type Identity } from './types.ts';

/**
 * The directories of one run: `/tmp`, the home, and what it changes in its workspace. They are made for it and
 * removed after it, whatever it has left there. They lie on disk, not in memory, where they would count against the
 * run's limit.
 */
export interface RunDirectories {
  /** An empty directory that belongs to the build, as the runner sees it. */
  make(name: RunDirectory): string;
  /** The same directory in the run's namespaces, under the owner that the run sees. */
  mapped(name: RunDirectory): string;
  /** Settles when all that were asked for are there. */
  settled(): Promise<void>;
}

const MODES = { tmp: 0o1777, home: 0o755, changes: 0o755, work: 0o755, workspace: 0o755, layers: 0o755 };
export type RunDirectory = keyof typeof MODES;

/** What nearly every run needs, made ahead of it. */
const AHEAD: readonly RunDirectory[] = ['tmp', 'home', 'changes', 'work'];

interface Options {
  folder: string;
  namespaces: RunNamespaces;
  owner: Identity;
  root: SandboxRoot;
}

const MAPPED = join(HELPER_DIRECTORY, 'own');

export function openRunDirectories({ folder, namespaces, owner, root }: Options): RunDirectories {
  const requests = new Set<Promise<void>>();
  const request = (promise: Promise<void>): void => {
    promise.catch(() => {}); // whoever waits for all of them is told
    requests.add(promise);
  };
  const made = new Set<RunDirectory>();
  const path = (name: RunDirectory): string => join(folder, name);
  const mapped = (name: RunDirectory): string => join(MAPPED, name);
  const make = (name: RunDirectory): string => {
    if (!made.has(name)) request(namespaces.directory(path(name), MODES[name], owner));
    made.add(name);
    return path(name);
  };
  request(namespaces.bind(folder, MAPPED, 'rw', 'mapped'));
  AHEAD.forEach(make);
  request(namespaces.bind(mapped('tmp'), root.at('/tmp'), 'rw'));
  request(namespaces.bind(mapped('home'), root.at(PLACES.home), 'rw'));
  return {
    make,
    mapped,
    settled: async () => void (await Promise.all(requests)),
  };
}
