import { plain } from '../../shared/lib/plain-text.ts';

/**
 * Two runs of the same command rarely print the same bytes. Levelling replaces what changes from run to run by a mark,
 * so that lines of different runs can be compared. To level more, add an entry.
 *
 * An expression must be linear: no repetition inside a repetition unless their characters differ. The first entry that
 * matches at a position counts.
 */
interface Levelled {
  /** The characters with which a match can begin. */
  first: string;
  /** How long the first word is. Only words with a digit are tried, unless the entry says otherwise. */
  word?: readonly [least: number, most: number];
  isWithoutDigit?: boolean;
  expression: string;
  /** Lines that are equal after levelling. A test checks them. */
  examples: readonly [string, string, ...string[]];
}

const digits = '0123456789';
const hex = `${digits}abcdefABCDEF`;
const letters = 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ';
const month = String.raw`(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}\.?`;
const weekday = '(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6},?';
const inPath = String.raw`[\w.@%+~=-]`;
const ruler = '=#>*.~_-█▉▊▋▌▍▎▏▓▒░─━╸╺╾╼';
const unit =
  '(?:ns|[µμu]s|ms|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|[kKMGT]i?[bB](?:/s)?|[kKMGT]|[bB]ytes?|B|MHz|GHz)';

export const levelled: Readonly<Record<string, Levelled>> = {
  dates: {
    first: `${digits}MTWFSJADON`,
    word: [1, 9],
    isWithoutDigit: true,
    expression: String.raw`\b(?:${weekday} {1,2})?(?:${month} {1,2}\d{1,2}|\d{1,2}[ -]${month}[ -]\d{2,4})\b(?:,? \d{4}\b)?`,
    examples: ['built Fri Nov 20 10:03:11 UTC 2026', 'built Mon Mar  2 09:00:59 UTC 2027'],
  },
  isoTimes: {
    first: digits,
    word: [4, 4],
    expression: String.raw`\b\d{4}-\d\d-\d\d[T_ ]\d\d[:-]\d\d(?:[:-]\d\d(?:[.,_]\d{1,9})?)?(?:Z|(?:UTC|GMT)\b| ?[+-]\d\d:?\d\d)?`,
    examples: ['2026-11-20T10:03:11.123Z done', '2026-11-20 10:03:11 done', '2025-01-02T03:04:05+02:00 done'],
  },
  uuids: {
    first: hex,
    word: [8, 8],
    expression: String.raw`\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b`,
    examples: ['run 0b5e7c1a-aaaa-4d9e-bbbb-c0ffee123456', 'run 11111111-2222-4333-8444-555555555555'],
  },
  memoryAddresses: {
    first: '0',
    word: [3, 34],
    expression: String.raw`\b0[xX][0-9a-fA-F]{1,32}\b`,
    examples: ['<Foo object at 0x7f3a9c>', '<Foo object at 0x55d0e1b2c3d4>'],
  },
  checksums: {
    first: 's',
    word: [4, 6],
    expression: String.raw`\bsha\d{1,3}[-:][A-Za-z0-9+/=]{20,200}`,
    examples: [
      'image sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08',
      'image sha512-z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg/SpIdNs6c5H0NE8XYXysP+DGNKHfuwvY7kxvUdBeoGlODJ6+SfaPg==',
    ],
  },
  networkAddresses: {
    first: hex,
    word: [1, 4],
    expression: String.raw`\b(?:[0-9a-fA-F]{1,4}:){4,7}[0-9a-fA-F]{1,4}\b`,
    examples: ['from fe80:0:0:0:ab:1 up', 'from 02:42:ac:11:00:02 up'],
  },
  hashes: {
    first: hex,
    word: [7, 128],
    expression: String.raw`\b(?=[a-fA-F]{0,64}\d)[0-9a-fA-F]{7,128}\b`,
    examples: ['HEAD is now at 3f2a91c', 'HEAD is now at da39a3ee5e6b4b0d3255bfef95601890afd80709'],
  },
  randomNames: {
    first: `${letters}${digits}`,
    word: [20, 200],
    expression: String.raw`\b(?=(?:[A-Za-z]{0,20}\d){2})[A-Za-z0-9]{20,200}\b`,
    examples: ['session 9xQeWvG816bUx9EPjHmaT2', 'session kk1ZPuEIAbd2mNN0ty63Qw'],
  },
  temporaryNames: {
    first: 't',
    word: [3, 15],
    isWithoutDigit: true,
    expression: String.raw`\btmp(?:[._-][A-Za-z0-9]{4,12}|(?=[a-z_]{0,12}[0-9A-Z])[A-Za-z0-9_]{4,12})\b`,
    examples: ['into tmp.Xy12AbQr', 'into tmpk3ja9f_x'],
  },
  paths: {
    first: '/',
    expression: String.raw`(?<![\w.)\]:/<])/(?!/)(?:${inPath}{1,255}/)*${inPath}{0,255}`,
    examples: ['wrote /tmp/build-a8s/out.o', 'wrote /home/ada/work/x.o'],
  },
  numbers: {
    first: `${digits}-+`,
    expression: String.raw`[-+]?\d+(?:[.,:/_-]\d+)*(?:e[-+]?\d+)?(?:%| ?${unit}\b)?`,
    examples: ['took 1m 3.5s', 'took 980ms', 'took 12', 'took -3', 'took 192.168.0.1:8080'],
  },
  rulers: {
    first: ruler,
    expression: `[${ruler.replace('-', '')}-]{3,}`,
    examples: ['tests/a.py ........', 'tests/a.py ....'],
  },
};

/** By the code of a first character: what to try there, in the order of the table. */
const byFirst = Map.groupBy(
  Object.values(levelled).flatMap(({ first, word = [0, Infinity], isWithoutDigit = false, expression }) => {
    const tried = {
      expression: new RegExp(expression, 'y'),
      least: word[0],
      most: word[1],
      needsDigit: !isWithoutDigit,
    };
    return Array.from(first, (sign) => ({ ...tried, code: sign.charCodeAt(0) }));
  }),
  ({ code }) => code,
);
const ofAscii = Array.from({ length: 128 }, (_, code) => byFirst.get(code));

/** The rest of a longer line is not compared. */
export const longestCompared = 1000;
const [space, comma, mark] = [0x20, 0x2c, 0x23];
/** 2 for a digit, 1 for another character of a word. */
const kinds = Uint8Array.from({ length: 128 }, (_, code) => {
  const sign = String.fromCharCode(code);
  return /\d/.test(sign) ? 2 : Number(/\w/.test(sign));
});
const kindOf = (code: number): number => (code < 128 ? (kinds[code] as number) : 0);

const out = new Uint16Array(longestCompared + 8);

/** Writes the levelled line to `out`, and returns its length. */
function levelInto(text: string, from: number, to: number): number {
  const end = Math.min(to, from + longestCompared);
  let length = 0;
  // Columns and lists are as wide as their numbers, so blanks and commas around marks do not count.
  let [hasSpace, hasComma, isAfterMark] = [false, false, false];
  let wordEnd = from;
  let isDigitless = false;
  for (let at = from; at < end;) {
    const code = text.charCodeAt(at);
    if (code === space) {
      hasSpace = true;
      at += 1;
      continue;
    }
    const kind = kindOf(code);
    let matched = 0;
    if (kind === 0) matched = matchAt(text, at, code, 0, false);
    else if (at >= wordEnd) {
      isDigitless = kind !== 2;
      for (wordEnd = at + 1; wordEnd < end; wordEnd += 1) {
        const next = kindOf(text.charCodeAt(wordEnd));
        if (next === 0) break;
        if (next === 2) isDigitless = false;
      }
      matched = matchAt(text, at, code, wordEnd - at, isDigitless);
    } else if (kind === 2) matched = matchAt(text, at, code, 0, false);
    if (matched > 0) {
      if (!isAfterMark) {
        if (hasComma) out[length++] = comma;
        out[length++] = mark;
      }
      isAfterMark = true;
      hasSpace = hasComma = false;
      at += matched;
      continue;
    }
    if (code === comma && isAfterMark && !hasComma) {
      hasComma = true;
      at += 1;
      continue;
    }
    if (hasComma) out[length++] = comma;
    if (hasSpace && length > 0) out[length++] = space;
    hasSpace = hasComma = isAfterMark = false;
    out[length++] = code;
    at += 1;
    if (isDigitless) while (at < wordEnd && length <= longestCompared) out[length++] = text.charCodeAt(at++);
    if (length > longestCompared) break;
  }
  return length;
}

/** The length of what is levelled here. 0 for nothing. Inside a word, and at a sign, there is no word. */
function matchAt(text: string, at: number, code: number, word: number, isDigitless: boolean): number {
  const all = code < 128 ? ofAscii[code] : byFirst.get(code);
  if (!all) return 0;
  for (const { expression, least, most, needsDigit } of all) {
    if (word < least || word > most || (needsDigit && isDigitless)) continue;
    expression.lastIndex = at;
    if (expression.test(text)) return expression.lastIndex - at;
  }
  return 0;
}

/** A readable line as it compares with lines of other runs. Blank if it has no sign. */
export function level(line: string): string {
  const length = levelInto(line, 0, line.length);
  return Buffer.from(out.buffer, 0, 2 * length).toString('utf16le');
}

/** Of the levelled line. 0 for a blank line. */
export function hashOfLine(line: string): number {
  return hashOfOut(levelInto(line, 0, line.length));
}

/** The same for a line within a text, without a copy of it. Undefined if it has more than printable ASCII characters. */
export function hashOfSpan(text: string, from: number, to: number): number | undefined {
  for (let at = from; at < to; at += 1) {
    const code = text.charCodeAt(at);
    if (code < 0x20 || code > 0x7e) return undefined;
  }
  return hashOfOut(levelInto(text, from, to));
}

function hashOfOut(length: number): number {
  if (length === 0) return 0;
  let hash = 0x811c9dc5;
  for (let at = 0; at < length; at += 1) hash = Math.imul(hash ^ (out[at] as number), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d);
  return (hash ^ (hash >>> 13)) >>> 0 || 1;
}

/** What is far behind the compared part does not count. */
const longestRead = 16 * longestCompared;

/** As a terminal would show it at the end: what was written over is gone. */
export function readable(line: string): string {
  const end = line.endsWith('\r') ? line.length - 1 : line.length;
  const start = line.lastIndexOf('\r', end - 1) + 1;
  return plain(line.slice(start, Math.min(end, start + longestRead))).trimEnd();
}
