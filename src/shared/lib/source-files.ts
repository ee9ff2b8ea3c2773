import { join } from 'node:path';

/** Set in a bundle (scripts/setup.sh): the path from the bundle to the sources. */
declare const wayToSources: string | undefined;

const sources = join(import.meta.dirname, typeof wayToSources === 'undefined' ? '../..' : wayToSources);

/** For files that are no modules, such as a Perl helper. `name` is the path below src. */
export function sourceFile(...name: string[]): string {
  return join(sources, ...name);
}

/** The file with which Node starts this program again. */
export const mainProgram =
  typeof wayToSources === 'undefined' ? sourceFile('main.ts') : join(import.meta.dirname, 'main.js');
