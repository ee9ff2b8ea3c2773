import sax from 'sax';

type Parser = sax.SAXParser & { state: number };

// The types of the parser do not have its states.
const { TEXT, CDATA } = (sax as unknown as { STATE: { TEXT: number; CDATA: number } }).STATE;

/** With these characters a text ends, or may end. */
const ends = new Map([
  [TEXT, '<'],
  [CDATA, ']'],
]);

/**
 * Where there are no long texts, more and more is given to the parser at once: each time costs something, and a report may
 * be nothing but these characters.
 */
const longestStride = 256;

/**
 * Gives a document to a parser, but for texts that nobody wants. Most of a large report is what its tests have printed,
 * and the parser reads that character by character, at 14 MB a second on a machine with 2 cores.
 *
 * So a mistake in such a text, an entity that does not exist, is not noticed.
 */
export function feed(parser: sax.SAXParser, document: string, isTextWanted: () => boolean): void {
  // After these a text may begin: the last characters of a tag, and of `<![CDATA[`.
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

/** Counts lines and columns as the parser does, for its messages. */
function passOver(parser: sax.SAXParser, document: string, from: number, to: number): void {
  let lineAt = from - parser.column;
  for (let at = document.indexOf('\n', from); at !== -1 && at < to; at = document.indexOf('\n', lineAt)) {
    parser.line += 1;
    lineAt = at + 1;
  }
  parser.column = to - lineAt;
  parser.position += to - from;
}
