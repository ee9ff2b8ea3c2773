import { join } from 'node:path';

/** Set where modules are bundled (scripts/setup.sh): the way from the bundle to the sources. */
declare const wayToSources: string | undefined;

const sources = join(import.meta.dirname, typeof wayToSources === 'undefined' ? '../..' : wayToSources);

/** The path of a file of this program that is no module, such as a helper in Perl; `name` is its path below src. */
export function sourceFile(...name: string[]): string {
  return join(sources, ...name);
}

/** What Node runs to start this program once more. */
export const mainProgram =
  typeof wayToSources === 'undefined' ? sourceFile('main.ts') : join(import.meta.dirname, 'main.js');
