/*
 * Recognizes ordinary words, such as `production` or `us-east-1`. Masking them would hide harmless parts of a log, and
 * the holes would reveal the text. Only the form counts, because no word list covers every language.
 */

/** In names, paths and addresses. */
const separators = /[\s._/:@-]+/;

/** More words are a passphrase, which no log contains by chance. */
const mostWords = 3;

const word = /^(?:\p{Lu}?[\p{Ll}\p{Lo}\p{M}]{0,15}|\p{Lu}{1,16})$/u;
const shortNumber = /^[0-9]{1,3}$/;
/** A run of consonants reveals a key made only of letters. */
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
