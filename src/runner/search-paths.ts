import { lstatSync } from 'node:fs';
import { join } from 'node:path';
import { usualPath } from './sandbox/types.ts';

/**
 * How software at a prefix is found: the variables that shells, linkers, compilers and build systems look into, and the
 * directories below a prefix that each lists.
 */
const triplet = { arm64: 'aarch64-linux-gnu', x64: 'x86_64-linux-gnu' }[process.arch as string];
const libraries = ['lib', 'lib64', ...(triplet === undefined ? [] : [`lib/${triplet}`])];

const variables: Record<string, string[]> = {
  LD_LIBRARY_PATH: libraries,
  LIBRARY_PATH: libraries,
  CPATH: ['include'],
  PKG_CONFIG_PATH: [...libraries.map((folder) => `${folder}/pkgconfig`), 'share/pkgconfig'],
  ACLOCAL_PATH: ['share/aclocal'],
  CMAKE_PREFIX_PATH: [''],
};

const places = [...new Set(Object.values(variables).flat())];

/** Those of the directories that a tree has: an entry that leads nowhere costs every search a look. */
export function placesIn(tree: string): string[] {
  return places.filter((place) => has(tree, place));
}

/**
 * Strangers made the tree, and its links mean something in a sandbox alone. Followed here, they would say what exists on
 * this machine. So a link counts, wherever it leads.
 */
function has(tree: string, place: string): boolean {
  let path = tree;
  for (const name of place.split('/')) {
    path = join(path, name);
    const kind = kindOf(path);
    if (kind !== 'directory') return kind === 'link';
  }
  return true;
}

function kindOf(path: string): 'directory' | 'link' | 'other' {
  try {
    const found = lstatSync(path);
    return found.isDirectory() ? 'directory' : found.isSymbolicLink() ? 'link' : 'other';
  } catch {
    return 'other'; // it is not there, or not for us to look at
  }
}

/**
 * The environment in which software is found: `bin` of each prefix, in order, before all else on PATH, and likewise for
 * the rest. What the suite itself says for one of these comes after.
 */
export function findable(
  environment: Record<string, string>,
  prefixes: readonly string[],
  placesAt: (prefix: string) => readonly string[],
): Record<string, string> {
  if (prefixes.length === 0) return environment;
  const found: Record<string, string> = {};
  const add = (name: string, folders: string[], otherwise?: string): void => {
    const rest = environment[name] ?? otherwise ?? '';
    const all = rest === '' ? folders : [...folders, rest];
    if (folders.length > 0) found[name] = all.join(':');
  };
  add(
    'PATH',
    prefixes.map((prefix) => join(prefix, 'bin')),
    usualPath,
  );
  for (const [name, wanted] of Object.entries(variables)) {
    const folders = prefixes.flatMap((prefix) =>
      wanted.filter((place) => placesAt(prefix).includes(place)).map((place) => join(prefix, place)),
    );
    add(name, folders);
  }
  return { ...environment, ...found };
}
