import { linesOf, wholeOrCut, type GitOutput } from './git.ts';
import type { Session } from './session.ts';

/** A ref of the mirror, as `git for-each-ref` lists it. */
export interface KnownRef {
  /** The full name. */
  name: string;
  tip: string;
  isDefault: boolean;
}

/** Arguments of git; more may follow. */
export const listRefs: readonly string[] = ['for-each-ref', '--format=%(HEAD)%(objectname) %(refname)'];

export function refsIn(listed: GitOutput): KnownRef[] {
  return linesOf(listed).map((line) => {
    const blank = line.indexOf(' ', 1);
    return { name: line.slice(blank + 1), tip: line.slice(1, blank), isDefault: line.startsWith('*') };
  });
}

/** The objects that refs point to, by the full names of the refs. */
export async function tipsOf(session: Session, names: readonly string[]): Promise<ReadonlyMap<string, string>> {
  if (names.length === 0) return new Map();
  const listed = await session.git([...listRefs, ...names]);
  // A pattern also matches refs below it, such as `refs/heads/a/b` for `refs/heads/a`.
  const wanted = refsIn(wholeOrCut('looking for refs', listed)).filter(({ name }) => names.includes(name));
  return new Map(wanted.map(({ name, tip }) => [name, tip]));
}
