import { cutBytes } from './cut-bytes.ts';

/**
 * How much is taken of a commit. Anybody who proposes a change to a repository writes these texts, and rules and pages
 * read them. Runners cut them where they read a commit, and servers whatever a runner sends.
 */

/** In bytes of UTF-8, with the mark. */
export const longestMessage = 64 * 1024;
const messageMark = '\n\n[The message is longer. This is its beginning.]';

/** Of a name or an e-mail address, in bytes of UTF-8. */
const longestPerson = 1024;

/** Of the branches, the tags, and the files, each: their number, and their bytes as JSON. */
export const mostNames = 10_000;
const mostBytesOfNames = 512 * 1024;

const cut = (text: string, most: number, mark: string): string => {
  const bytes = Buffer.from(text);
  return bytes.length <= most ? text : cutBytes(bytes, most - Buffer.byteLength(mark)) + mark;
};

/** The message; of a long one its beginning, with a last line that says so. */
export const boundedMessage = (message: string): string => cut(message, longestMessage, messageMark);

export const boundedPerson = (text: string): string => cut(text, longestPerson, '…');

/** The first of the names, each whole: a part of a name would be another name. */
export function boundedNames(names: readonly string[]): string[] {
  let bytes = 0;
  const end = names.findIndex((name, at) => {
    bytes += Buffer.byteLength(JSON.stringify(name));
    return at >= mostNames || bytes > mostBytesOfNames;
  });
  return end < 0 ? [...names] : names.slice(0, end);
}
