/** Quoted text; an escape, also one with braces of its own; a class of characters; a repetition; anything else. */
const tokens =
  /\\Q[\s\S]*?(?:\\E|$)|\\[pPx]\{[^}]*\}|\\[\s\S]|\[\^?\]?(?:\\[\s\S]|[^\]\\])*\]|\{(\d+)(?:,(\d*))?\}|[\s\S]/g;

/**
 * How many atoms an expression has once `x{n,m}` is written out. It is counted before compiling, because compiling an
 * expression that multiplies itself already does the harm. What the engine does for its classes alone counts besides.
 * It is an estimate; the engine checks the syntax.
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

/** A range wherever there may be one, also where two overlap: `\\d-a-z` has one from `a`. */
const ranges = /(?<=(\\x\{[0-9a-f]+\}|[\s\S]))-(?=(\\x\{[0-9a-f]+\}|\\?[\s\S]))/giu;
/** Behind this character none has another case. */
const lastWithCase = 0x1e943;
/** One range of all characters is some 40 milliseconds, which is enough; a table of Unicode is a millisecond at most. */
const [charactersOfAnAtom, atomsOfATable] = [700, 5];

/**
 * The engine copies the table of each `\pL`. Where case is ignored, it looks up the other cases of every single character
 * of a range when it reads it.
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
