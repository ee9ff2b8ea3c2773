/*
 * Whether a text is made of ordinary words, such as `production` or `us-east-1`. Masking such a text hides harmless
 * parts of a log, and the holes show which text it is. The look of the text decides, because no list of words covers
 * every language; a secret that looks like a word could be guessed like a word.
 */

/** The characters between words in names, paths and addresses. */
const separators = /[\s._/:@-]+/;

/** More words are a passphrase, which does not stand in a log by chance. */
const mostWords = 3;

const word = /^(?:\p{Lu}?[\p{Ll}\p{Lo}\p{M}]{0,15}|\p{Lu}{1,16})$/u;
const shortNumber = /^[0-9]{1,3}$/;
/** A key made of letters alone shows by a run of consonants. */
const unpronounceable = /[bcdfghjklmnpqrstvwxz]{6}/i;

/** Every line must be ordinary: a key with a heading in words is not. */
export function isOrdinary(text: string): boolean {
  const lines = text.split(/[\r\n]+/).filter((line) => line.trim() !== '');
  return lines.length > 0 && lines.every(isOrdinaryLine);
}

function isOrdinaryLine(line: string): boolean {
  const parts = line.split(separators, 2 * mostWords + 2).filter((part) => part !== '');
  const words = parts.filter((part) => word.test(part) && !unpronounceable.test(part));
  const numbers = parts.filter((part) => shortNumber.test(part));
  return words.length > 0 && parts.length <= mostWords && words.length + numbers.length === parts.length;
}
