import { join } from 'node:path';
import { ownDirectories, type RunNamespaces } from './mount-helper.ts';
import { sandboxPaths, type Identity } from './types.ts';

/** A run's own directories. They are on disk, because in memory they would count against the run's limit. */
export interface RunDirectories {
  /** Returns the runner's path of an empty directory that belongs to the build. */
  make(name: RunDirectory): string;
  /** Moves all directories with a run's files into a new one, and makes empty ones like them. */
  renew(to: string): void;
  settled(): Promise<void>;
  readonly stepFiles: Promise<string[]>;
}

/** Needed by nearly every run, so they are made ahead. */
export const directoriesAhead = {
  tmp: { mode: 0o1777, at: '/tmp' },
  home: { mode: 0o755, at: sandboxPaths.home },
  run: { mode: 0o755, at: '/run' },
  changes: { mode: 0o755 },
  work: { mode: 0o755 },
};
const laterMode = 0o755;
export type RunDirectory =
  | keyof typeof directoriesAhead
  | 'workspace'
  | 'layers'
  | 'homeWork'
  | 'tmpWork'
  | 'image-changes'
  | 'image-work';

/** Those of overlays and their own, and the plain ones that an overlay may replace. */
const renewed: readonly RunDirectory[] = [
  'tmp',
  'home',
  'changes',
  'work',
  'homeWork',
  'tmpWork',
  'image-changes',
  'image-work',
];

interface Options {
  folder: string;
  namespaces: RunNamespaces;
  owner: Identity;
}

/** The same directory in the run's namespaces, with the owner that the run sees. */
export function mapped(name: RunDirectory): string {
  return join(ownDirectories, name);
}

export function openRunDirectories({ folder, namespaces, owner }: Options): RunDirectories {
  const requests: Promise<unknown>[] = [];
  const request = (promise: Promise<unknown>): void => {
    promise.catch(() => {}); // a caller of `settled` gets the error
    requests.push(promise);
  };
  const stepFiles = namespaces.furnish(folder, owner);
  request(stepFiles);
  const made = new Set<string>(Object.keys(directoriesAhead));
  const path = (name: RunDirectory): string => join(folder, name);
  const make = (name: RunDirectory): string => {
    if (!made.has(name)) request(namespaces.directory(path(name), laterMode, owner));
    made.add(name);
    return path(name);
  };
  return {
    make,
    renew: (to) =>
      request(
        namespaces.renew(
          folder,
          to,
          renewed.filter((name) => made.has(name)),
        ),
      ),
    stepFiles,
    settled: async () => void (await Promise.all(requests)),
  };
}
