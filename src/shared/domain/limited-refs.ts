import { createYield } from '../lib/event-loop.ts';
import { compileGlob, wholeMatcher } from './globs.ts';

/** Refs that may use something, such as a variable: globs of full names. A short name is a branch, never a tag. */

export function fullRefGlob(glob: string): string | undefined {
  const full = glob.startsWith('refs/') ? glob : `refs/heads/${glob}`;
  return /^refs\/(heads|tags)\/./.test(full) && compileGlob(glob) && compileGlob(full) ? full : undefined;
}

/** `refs` are full names. Without globs, every ref is among them. */
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
