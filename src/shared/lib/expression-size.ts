/** Quoted text; an escape, perhaps with braces; a class; a repetition; anything else. */
const tokens =
  /\\Q[\s\S]*?(?:\\E|$)|\\[pPx]\{[^}]*\}|\\[\s\S]|\[\^?\]?(?:\\[\s\S]|[^\]\\])*\]|\{(\d+)(?:,(\d*))?\}|[\s\S]/g;

/**
 * The atoms of an expression with `x{n,m}` written out, plus the cost of its classes. It is an estimate before
 * compiling, because compiling an expression that multiplies itself already does the harm.
 */
export function expressionSize(expression: string): number {
  return atomsOf(expression) + effortOfClasses(expression);
}

function atomsOf(expression: string): number {
  const outer: number[] = [];
  let size = 0;
  let last = 0;
  for (const [token, least, most] of expression.matchAll(tokens)) {
    if (token === '(') {
      outer.push(size);
      size = 0;
      last = 0;
    } else if (token === ')') {
      last = size + 1; // a repetition of an empty group repeats the group itself
      size = last + (outer.pop() ?? 0);
    } else if (least !== undefined) {
      const times = Math.max(1, Number(least), Number(most ?? 0));
      size += last * (times - 1);
      last *= times;
    } else {
      size += token.startsWith('\\Q') ? token.length : 1;
      last = 1;
    }
  }
  return size;
}

/** Every possible range, also overlapping ones: `\\d-a-z` has one from `a`. */
const ranges = /(?<=(\\x\{[0-9a-f]+\}|[\s\S]))-(?=(\\x\{[0-9a-f]+\}|\\?[\s\S]))/giu;
/** No character after this one has another case. */
const lastWithCase = 0x1e943;
/** One range of all characters takes some 40 ms, and a second one is too much. A Unicode table takes at most 1 ms. */
const [charactersOfAnAtom, atomsOfATable] = [700, 5];

/**
 * The engine copies the table of each `\pL`. Without case, it looks up the other cases of every character of a range.
 */
function effortOfClasses(expression: string): number {
  const tables = expression.match(/\\p/gi)?.length ?? 0;
  let characters = 0;
  if (/\(\?[^)]*i/.test(expression)) {
    for (const [, first = '', last = ''] of expression.matchAll(ranges))
      characters += Math.max(0, Math.min(codeOf(last), lastWithCase) - codeOf(first));
  }
  return atomsOfATable * tables + Math.floor(characters / charactersOfAnAtom);
}

function codeOf(written: string): number {
  const [, hexadecimal] = /^\\x\{(.*)\}$/.exec(written) ?? [];
  if (hexadecimal !== undefined) return Number.parseInt(hexadecimal, 16);
  return written.codePointAt(written.startsWith('\\') ? 1 : 0) ?? 0;
}
