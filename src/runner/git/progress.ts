/* Progress lines show the runner that git is alive, but would be thousands of useless lines in a log. It omits them. */

type WriteChunk = (chunk: Buffer) => Promise<void>;

/** Longer lines are no progress, and are passed on at once. */
const longest = 256;

const share = String.raw`\d{1,3}% \(\d+\/\d+\)`;
const speed = String.raw`(, [\d.]+ ([KMGT]iB|bytes)( \| [\d.]+ ([KMGT]iB|bytes)\/s)?)?`;
const counting = new RegExp(
  String.raw`^(remote: )?[A-Z][\w ()-]{2,80}: +(${share}${speed}(, done\.)?|\d+${speed}, done\.)$`,
);
/** While the total is unknown, a line has only the number, and the next one overwrites it. */
const counter = new RegExp(String.raw`^(remote: )?[A-Z][\w ()-]{2,80}: +\d+${speed}$`);
const summary =
  /^(remote: )?(Total \d+ \(delta \d+\), reused \d+ \(delta \d+\).*|Delta compression using up to \d+ threads?)$/;

const wiping = '\x1b[K';

function isProgress(line: string, end: string): boolean {
  if (line.length > longest) return false; // also if it came in pieces
  // A line that overwrites a longer one ends with blanks or a terminal sequence that erase the rest.
  const trimmed = line.trimEnd();
  const text = trimmed.endsWith(wiping) ? trimmed.slice(0, -wiping.length).trimEnd() : trimmed;
  return counting.test(text) || summary.test(text) || (end === '\r' && counter.test(text));
}

/** `flush` passes on the text that is still held back at the end. */
export function withoutProgress(write: WriteChunk): { output: WriteChunk; flush: () => Promise<void> } {
  let held = ''; // the beginning of a line that may be progress; every byte is one character here
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
    if (isWhole && wasDropped && line === '\n') return ''; // the dropped line ended in \r\n
    wasDropped = isWhole && isProgress(line.slice(0, -1), end);
    return wasDropped ? '' : line;
  };
  return {
    output: async (chunk) => {
      const pieces = chunk.toString('latin1').match(/[^\r\n]*[\r\n]|[^\r\n]+$/g) ?? [];
      const kept = pieces.map(sift).join('');
      if (kept !== '') await write(Buffer.from(kept, 'latin1'));
    },
    flush: async () => {
      const rest = held;
      held = '';
      if (rest !== '' && !isProgress(rest, '\r')) await write(Buffer.from(rest, 'latin1'));
    },
  };
}
