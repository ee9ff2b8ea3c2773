/*
 * git counts aloud while it works, and so does the other side. For a runner those words are signs of life; in a log they
 * are thousands of lines that say nothing. So they are asked for, and left out of what people read.
 */

type Tell = (chunk: Buffer) => Promise<void>;

/** Longer lines are no progress, and are passed on as they come. */
const longest = 256;

const share = String.raw`\d{1,3}% \(\d+\/\d+\)`;
const speed = String.raw`(, [\d.]+ ([KMGT]iB|bytes)( \| [\d.]+ ([KMGT]iB|bytes)\/s)?)?`;
const counting = new RegExp(
  String.raw`^(remote: )?[A-Z][\w ()-]{2,80}: +(${share}${speed}(, done\.)?|\d+${speed}, done\.)$`,
);
/** While the sum is not known, only the number stands there, and the next one is written over it. */
const counter = new RegExp(String.raw`^(remote: )?[A-Z][\w ()-]{2,80}: +\d+${speed}$`);
const summary =
  /^(remote: )?(Total \d+ \(delta \d+\), reused \d+ \(delta \d+\).*|Delta compression using up to \d+ threads?)$/;

const wiping = '\x1b[K';

function isProgress(line: string, end: string): boolean {
  // Where it takes the place of a longer line, blanks or an order to the terminal wipe out the rest of that.
  const trimmed = line.trimEnd();
  const words = trimmed.endsWith(wiping) ? trimmed.slice(0, -wiping.length).trimEnd() : trimmed;
  return counting.test(words) || summary.test(words) || (end === '\r' && counter.test(words));
}

/** Passes on what is said, but for the counting. What is held back at the end, `flush` passes on. */
export function withoutProgress(tell: Tell): { output: Tell; flush: () => Promise<void> } {
  let held = ''; // the beginning of a line that may be progress; every byte is a letter here
  let isLong = false; // in the middle of a line that is passed on as it comes
  let wasDropped = false;
  const sift = (piece: string): string => {
    const end = /[\r\n]$/.exec(piece)?.[0] ?? '';
    const line = held + piece;
    held = '';
    if (end === '' && !isLong && line.length <= longest) {
      held = line;
      return '';
    }
    const isWhole = end !== '' && !isLong;
    isLong = end === '';
    if (isWhole && wasDropped && line === '\n') return ''; // the line had two ends
    wasDropped = isWhole && isProgress(line.slice(0, -1), end);
    return wasDropped ? '' : line;
  };
  return {
    output: async (chunk) => {
      const pieces = chunk.toString('latin1').match(/[^\r\n]*[\r\n]|[^\r\n]+$/g) ?? [];
      const kept = pieces.map(sift).join('');
      if (kept !== '') await tell(Buffer.from(kept, 'latin1'));
    },
    flush: async () => {
      const rest = held;
      held = '';
      if (rest !== '') await tell(Buffer.from(rest, 'latin1'));
    },
  };
}
