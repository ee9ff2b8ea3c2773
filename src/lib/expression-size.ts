/** Quoted text; an escape, also one with braces of its own; a class of characters; a repetition; anything else. */
const tokens =
  /\\Q[\s\S]*?(?:\\E|$)|\\[pPx]\{[^}]*\}|\\[\s\S]|\[\^?\]?(?:\\[\s\S]|[^\]\\])*\]|\{(\d+)(?:,(\d*))?\}|[\s\S]/g;

/**
 * How many atoms an expression has once `x{n,m}` is written out. It is counted before compiling, because compiling an
 * expression that multiplies itself already does the harm. It is an estimate; the engine checks the syntax.
 */
export function expressionSize(expression: string): number {
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
