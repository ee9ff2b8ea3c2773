import { lstatSync } from 'node:fs';
import { join } from 'node:path';
import { buildPath } from './sandbox/types.ts';

/** Variables that shells, linkers, compilers and build systems search, with their directories below a prefix. */
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

const directories = [...new Set(Object.values(variables).flat())];

/** Returns only existing directories, because a missing one would slow down every search. */
export function directoriesIn(tree: string): string[] {
  return directories.filter((directory) => has(tree, directory));
}

/** The tree is untrusted, and following its links would reveal which files exist here. So a link counts as present. */
function has(tree: string, directory: string): boolean {
  let path = tree;
  for (const name of directory.split('/')) {
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
    return 'other'; // missing, or not readable for this user
  }
}

/** Puts each prefix's directories, in order, before the values that the environment already has. */
export function findable(
  environment: Record<string, string>,
  prefixes: readonly string[],
  directoriesAt: (prefix: string) => readonly string[],
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
    buildPath(),
  );
  for (const [name, wanted] of Object.entries(variables)) {
    const folders = prefixes.flatMap((prefix) =>
      wanted
        .filter((directory) => directoriesAt(prefix).includes(directory))
        .map((directory) => join(prefix, directory)),
    );
    add(name, folders);
  }
  return { ...environment, ...found };
}
