import sax from 'sax';

type Parser = sax.SAXParser & { state: number };

// The parser's types lack its states.
const { TEXT, CDATA } = (sax as unknown as { STATE: { TEXT: number; CDATA: number } }).STATE;

/** The characters where a text ends, or may end. */
const ends = new Map([
  [TEXT, '<'],
  [CDATA, ']'],
]);

/** If skipped texts are short, the parser gets ever longer pieces. A report may consist of only short texts. */
const longestStride = 256;

/**
 * Skips unwanted texts, which are most of a large report. The parser would read only 14 MB a second on a machine with 2
 * cores. Errors in a skipped text, such as an unknown entity, stay unnoticed.
 */
export function feed(parser: sax.SAXParser, document: string, isTextWanted: () => boolean): void {
  // A text may begin after the end of a tag, or of `<![CDATA[`.
  const mayBegin = /[>[]/g;
  let stride = 0;
  let at = 0;
  while (at < document.length) {
    const end = isTextWanted() ? undefined : ends.get((parser as Parser).state);
    const from = at;
    if (end !== undefined) {
      const found = document.indexOf(end, from);
      at = found === -1 ? document.length : found;
      passOver(parser, document, from, at);
    }
    stride = at - from > stride ? 0 : Math.min(2 * stride + 1, longestStride);
    mayBegin.lastIndex = at + stride;
    const next = mayBegin.test(document) ? mayBegin.lastIndex : document.length;
    if (at < next) parser.write(document.slice(at, next));
    at = next;
  }
}

/** Counts lines and columns of skipped text as the parser does, for its messages. */
function passOver(parser: sax.SAXParser, document: string, from: number, to: number): void {
  let lineAt = from - parser.column;
  for (let at = document.indexOf('\n', from); at !== -1 && at < to; at = document.indexOf('\n', lineAt)) {
    parser.line += 1;
    lineAt = at + 1;
  }
  parser.column = to - lineAt;
  parser.position += to - from;
}
