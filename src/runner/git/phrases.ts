/*
 * Searches untrusted output for known phrases. Plain searches and no regular expressions: hostile output could make
 * those take the square of its length, and block everything else meanwhile.
 */

/** Only this much of a line is searched. */
const longestLine = 4096;

/** Whether a line of the text has one of the phrases, in lower case. In a phrase, `…` stands for any text. */
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

/** The text without these characters at its end. */
export function trimEnd(text: string, character: string): string {
  let end = text.length;
  while (end > 0 && text[end - 1] === character) end -= 1;
  return text.slice(0, end);
}
