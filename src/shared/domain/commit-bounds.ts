import { bytes as bounds, most } from './bounds.ts';
import { cutBytes } from '../lib/cut-bytes.ts';

/** Anyone who proposes a change writes these texts. Runners cut them, and servers cut them again. */

const messageMark = '\n\n[The message is longer. This is its beginning.]';

const cut = (text: string, length: number, mark: string): string => {
  const bytes = Buffer.from(text);
  return bytes.length <= length ? text : cutBytes(bytes, length - Buffer.byteLength(mark)) + mark;
};

/** A cut message ends with a line about the cut. */
export const boundedMessage = (message: string): string => cut(message, bounds.commitMessage, messageMark);

export const boundedPerson = (text: string): string => cut(text, bounds.person, '…');

/** Whole names only: a part would be another name. */
export function boundedNames(names: readonly string[]): string[] {
  let bytes = 0;
  const end = names.findIndex((name, at) => {
    bytes += Buffer.byteLength(JSON.stringify(name));
    return at >= most.namesOfCommit || bytes > bounds.namesOfCommit;
  });
  return end < 0 ? [...names] : names.slice(0, end);
}
