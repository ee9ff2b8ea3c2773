import { createYield } from '../lib/event-loop.ts';
import { compileGlob, wholeMatcher } from './globs.ts';

/**
 * Which refs may use something, such as a variable: globs of full names. A short name is a branch's, never a tag's.
 */

/** The glob of full names that somebody has written; undefined if it is none. */
export function fullRefGlob(glob: string): string | undefined {
  const full = glob.startsWith('refs/') ? glob : `refs/heads/${glob}`;
  return /^refs\/(heads|tags)\/./.test(full) && compileGlob(glob) && compileGlob(full) ? full : undefined;
}

/** Whether any of the refs, by their full names, is among those that the globs describe; every one is without globs. */
export async function areAmong(refs: readonly string[], globs: readonly string[]): Promise<boolean> {
  if (globs.length === 0) return true;
  const matchers = globs.flatMap((glob) => wholeMatcher(fullRefGlob(glob) ?? '') ?? []);
  const turn = createYield();
  for (const ref of refs) {
    await turn();
    if (matchers.some((matches) => matches(ref))) return true;
  }
  return false;
}
