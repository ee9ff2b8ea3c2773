import type { Path, Suite, Tally } from './model.ts';

/** Variables that other systems set, by their names there, and what a shell here has instead. */
export type Here = Readonly<Record<string, string>>;

export const ifTag = '$([ "$HEADRACE_EVENT" != tag ] || printf %s "$HEADRACE_REF")';

interface Reading {
  tally: Tally;
  target: Pick<Suite, 'notes'>;
  path: Path;
  /** Names that the file itself sets. */
  own?: ReadonlySet<string>;
}

/** Lines that export what the script reads. Names of the system (by `form`) that a build does not have are lost. */
export function exportsFor(script: string, here: Here, form: RegExp, { tally, target, path, own }: Reading): string[] {
  const used = new Set(Array.from(script.matchAll(form), ([, name = '']) => name));
  return [...used].flatMap((name) => {
    if (Object.hasOwn(here, name)) return [`export ${name}="${here[name]}"`];
    if (own?.has(name) !== true) tally.lose(target, path, `$${name}`, 'a build has no such variable');
    return [];
  });
}
