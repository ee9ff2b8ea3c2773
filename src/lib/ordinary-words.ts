/*
 * Whether a text is made of ordinary words, such as `production` or `us-east-1`. To mask such a text in a log hides
 * what everybody says, and tells what it is by the holes. It is judged by its looks, because no list of words knows
 * every language; a secret that looks like a word is one that could be guessed like a word.
 */

/** What stands between words in names, paths and addresses. */
const separators = /[\s._/:@-]+/;

/** More than these are a passphrase, which no log says by chance. */
const mostWords = 3;

const word = /^(?:\p{Lu}?[\p{Ll}\p{Lo}\p{M}]{0,15}|\p{Lu}{1,16})$/u;
const shortNumber = /^[0-9]{1,3}$/;
/** Keys made of letters alone are seen by what nobody could pronounce. */
const unpronounceable = /[bcdfghjklmnpqrstvwxz]{6}/i;

/** Every line of it, so that a key with a heading in words is none. */
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
