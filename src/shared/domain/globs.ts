import { longest } from './bounds.ts';

/**
 * Patterns for the names of files below a directory.
 *
 * - `*` is any part of a name, `?` one character, `[a-z]` one of these and `[!a-z]` one of the others.
 * - `**` is any number of directories, or none. At the end it is everything below.
 * - `{a,b}` is one of the alternatives, which may contain everything else.
 * - A backslash makes the next character literal.
 * - A pattern that matches a directory covers all files in it.
 * - A name with a leading dot matches only a pattern with that dot.
 * - A pattern has no `..` and no leading slash.
 */

/** After the alternatives of a pattern are written out. */
const mostAlternatives = 100;

/**
 * Undefined if the glob is invalid. Each pattern is a list: per directory and for the file, a regular expression or
 * `**`. The expressions match names as bytes, contain no slash, and mean the same in JavaScript and in Perl.
 */
export function compileGlob(glob: string): string[][] | undefined {
  if (glob.length > longest.glob || /^[!/]|[\p{Cc}\p{Cs}]/u.test(glob)) return undefined;
  const expanded = alternatives(glob);
  const compiled = expanded?.map(compilePath);
  return compiled?.every((path) => path !== undefined) ? compiled : undefined;
}

/** As runner/match-globs.pl takes them. */
export function patternsOf(globs: readonly string[]): string[] {
  return globs.flatMap((glob, at) => (compileGlob(glob) ?? []).map((parts) => [at, ...parts].join('/')));
}

function alternatives(glob: string): string[] | undefined {
  const open = next(glob, 0, '{');
  if (open === undefined) return [glob];
  const parts: string[] = [];
  let depth = 0;
  let from = open + 1;
  for (let at = next(glob, from, '{,}'); at !== undefined; at = next(glob, at + 1, '{,}')) {
    if (glob[at] === '{') depth += 1;
    else if (depth > 0) depth -= glob[at] === '}' ? 1 : 0;
    else {
      parts.push(glob.slice(from, at));
      from = at + 1;
      if (glob[at] === '}') return combine(glob.slice(0, open), parts, glob.slice(at + 1));
    }
  }
  return undefined;
}

function combine(before: string, parts: string[], after: string): string[] | undefined {
  const all: string[] = [];
  const ends = alternatives(after);
  for (const part of parts) {
    const inner = alternatives(part);
    if (!inner || !ends || all.length + inner.length * ends.length > mostAlternatives) return undefined;
    all.push(...inner.flatMap((middle) => ends.map((end) => before + middle + end)));
  }
  return all;
}

/** Skips brackets and what follows a backslash. */
function next(glob: string, from: number, characters: string): number | undefined {
  for (let at = from; at < glob.length; at += 1) {
    if (characters.includes(glob[at] ?? '')) return at;
    if (glob[at] === '\\') at += 1;
    else if (glob[at] === '[') at = endOfClass(glob, at) ?? at;
  }
  return undefined;
}

/** The end of a class. A bracket as its first character does not end it. */
function endOfClass(glob: string, open: number): number | undefined {
  const first = /^[!^]?/.exec(glob.slice(open + 1))?.[0].length ?? 0;
  for (let at = open + 1 + first; at < glob.length && glob[at] !== '/'; at += 1) {
    if (glob[at] === '\\') at += 1;
    else if (glob[at] === ']' && at > open + 1 + first) return at;
  }
  return undefined;
}

function compilePath(path: string): string[] | undefined {
  const names = path.split('/').filter((name) => name !== '' && name !== '.');
  if (names.length === 0 || path.startsWith('/') || names.includes('..')) return undefined;
  if (names.at(-1) === '**') names.push('*');
  const kept = names.filter((name, at) => name !== '**' || names[at - 1] !== '**');
  const compiled = kept.map((name) => (name === '**' ? name : compileName(name)));
  return compiled.every((name) => name !== undefined) ? compiled : undefined;
}

const anyCharacter = String.raw`(?:[\x00-\x7f]|[\xc2-\xf4][\x80-\xbf]+)`;
const noDot = String.raw`(?!\.)`;

function compileName(name: string): string | undefined {
  let expression = /^[*?[]/.test(name) ? noDot : '';
  for (let at = 0; at < name.length; at += 1) {
    const character = String.fromCodePoint(name.codePointAt(at) ?? 0);
    if (character === '*') expression += expression.endsWith('.*') ? '' : '.*';
    else if (character === '?') expression += anyCharacter;
    else if (character === '[') {
      const end = endOfClass(name, at);
      const members = end === undefined ? undefined : compileClass(name.slice(at + 1, end));
      if (end === undefined || members === undefined) return undefined;
      expression += members;
      at = end;
    } else if (character === '\\') {
      if (++at >= name.length) return undefined;
      expression += literal(name[at] ?? '');
    } else {
      expression += literal(character);
      at += character.length - 1;
    }
  }
  return expression;
}

/** Ranges are only for ASCII letters and digits: the order of others is not obvious. */
function compileClass(content: string): string | undefined {
  const isNegated = /^[!^]/.test(content);
  const members = [...(isNegated ? content.slice(1) : content).matchAll(/\\?(.)(?:-\\?([^\]]))?/gsu)].map(
    ([, first = '', last]) => (last === undefined ? literal(first) : range(first, last)),
  );
  if (members.length === 0 || members.includes('')) return undefined;
  const one = `(?:${members.join('|')})`;
  return isNegated ? `(?!${one})${anyCharacter}` : one;
}

function range(first: string, last: string): string {
  return /^[A-Za-z0-9]{2}$/.test(first + last) && first <= last ? `[${first}-${last}]` : '';
}

const literal = (character: string): string =>
  /^[A-Za-z0-9_]$|^\P{ASCII}/u.test(character)
    ? character
    : `\\x${character.charCodeAt(0).toString(16).padStart(2, '0')}`;

export function globMatcher(glob: string): ((path: string) => boolean) | undefined {
  return matcher(glob, { isWhole: false });
}

/** For names that are not directories, so nothing below them matches. */
export function wholeMatcher(glob: string): ((path: string) => boolean) | undefined {
  return matcher(glob, { isWhole: true });
}

function matcher(glob: string, { isWhole }: { isWhole: boolean }): ((path: string) => boolean) | undefined {
  const patterns = compileGlob(glob)?.map((parts) =>
    parts.map((part) => (part === '**' ? part : nameMatcher(bytesOf(part)))),
  );
  return patterns && ((path) => patterns.some((parts) => leadsTo(parts, path.split('/').map(bytesOf), isWhole)));
}

const bytesOf = (text: string): string => Buffer.from(text).toString('latin1');

type Part = ((name: string) => boolean) | '**';

/** Each text between stars is searched in turn. One expression for all would try every combination, endlessly. */
function nameMatcher(expression: string): (name: string) => boolean {
  const [first = '', ...others] = expression.split('.*');
  const last = others.pop();
  if (last === undefined) {
    const whole = new RegExp(`^(?:${first})$`, 's');
    return (name) => whole.test(name);
  }
  const begin = new RegExp(`^(?:${first})`, 's');
  const searches = [...others, `(?:${last})$`].map((text) => new RegExp(text, 'gs'));
  return (name) => {
    let at = begin.exec(name)?.[0].length;
    for (const search of searches) {
      if (at === undefined) return false;
      search.lastIndex = at;
      at = search.test(name) ? search.lastIndex : undefined;
    }
    return at !== undefined;
  };
}

/** Follows all positions in the pattern at once, so each name meets each part once. */
function leadsTo(parts: readonly Part[], names: readonly string[], isWhole: boolean): boolean {
  const from = (at: number): number[] => (parts[at] === '**' ? [at, ...from(at + 1)] : [at]);
  let positions = new Set(from(0));
  for (const name of names) {
    const next = new Set<number>();
    for (const at of positions) {
      const part = parts[at];
      if (part === undefined ? !isWhole && !name.startsWith('.') : part === '**' && !name.startsWith('.')) next.add(at);
      else if (typeof part === 'function' && part(name)) next.add(at + 1);
    }
    positions = new Set(Array.from(next).flatMap(from));
  }
  return positions.has(parts.length);
}
