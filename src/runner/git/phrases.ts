/* Plain searches, because hostile output could make regular expressions quadratic and block everything else. */

/** Only this much of a line is searched. */
const longestLine = 4096;

/** Ignores case: phrases must be in lower case. In a phrase, `…` matches any text. */
export function containsAny(text: string, phrases: readonly string[]): boolean {
  return text.split('\n').some((line) => {
    const start = line.slice(0, longestLine).toLowerCase();
    return phrases.some((phrase) => holds(start, phrase));
  });
}

function holds(line: string, phrase: string): boolean {
  let at = 0;
  for (const part of phrase.split('…')) {
    const found = line.indexOf(part, at);
    if (found < 0) return false;
    at = found + part.length;
  }
  return true;
}

export function trimEnd(text: string, character: string): string {
  let end = text.length;
  while (end > 0 && text[end - 1] === character) end -= 1;
  return text.slice(0, end);
}

export function quoted(text: string): string {
  return `“${text}”`;
}
