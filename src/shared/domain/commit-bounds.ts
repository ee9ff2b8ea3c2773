import { bytes as bounds, most } from './bounds.ts';
import { cutBytes } from '../lib/cut-bytes.ts';

/**
 * How much is taken of a commit. Anybody who proposes a change to a repository writes these texts, and rules and pages
 * read them. Runners cut them where they read a commit, and servers whatever a runner sends.
 */

const messageMark = '\n\n[The message is longer. This is its beginning.]';

const cut = (text: string, length: number, mark: string): string => {
  const bytes = Buffer.from(text);
  return bytes.length <= length ? text : cutBytes(bytes, length - Buffer.byteLength(mark)) + mark;
};

/** The message; of a long one its beginning, with a last line that says so. */
export const boundedMessage = (message: string): string => cut(message, bounds.commitMessage, messageMark);

export const boundedPerson = (text: string): string => cut(text, bounds.person, '…');

/** The first of the names, each whole: a part of a name would be another name. */
export function boundedNames(names: readonly string[]): string[] {
  let bytes = 0;
  const end = names.findIndex((name, at) => {
    bytes += Buffer.byteLength(JSON.stringify(name));
    return at >= most.namesOfCommit || bytes > bounds.namesOfCommit;
  });
  return end < 0 ? [...names] : names.slice(0, end);
}
