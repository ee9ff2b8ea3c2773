/* oxlint-disable no-control-regex -- control characters are what this is about */
/**
 * Text from others on a terminal. Everybody who can push or answer writes names, messages and logs, and a terminal
 * obeys what it gets: it can be made to move the cursor, to write into the shell's input, to turn text around. So
 * nothing of that reaches it. From a log only colours do.
 */

/** Control characters, and characters that hide or turn around the text beside them. */
const acting = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;
/** These join or separate letters and emoji. They are harmless, and belong to names. */
const harmless = new Set(['\u200c', '\u200d', '\u00ad']);

/** One line of text without anything that acts on a terminal. */
export function clean(text: string): string {
  return text.replaceAll(/[\r\n\t]+/g, ' ').replaceAll(acting, (one) => (harmless.has(one) ? one : '\ufffd'));
}

/** Cleans the values that are inserted into a sentence. */
export function words(parts: TemplateStringsArray, ...values: readonly (string | number)[]): string {
  return String.raw({ raw: parts }, ...values.map((value) => clean(String(value))));
}

/** A colour or weight, and nothing else. */
const sgr = /^\u001b\[[\d;:]{0,64}m/;
// Strings to the terminal (titles, clipboards, pictures) are dropped with their content; other sequences are dropped as
// a whole.
const sequences =
  /^\u001b(?:[\]PX^_][^\u0007\u001b\u009c]{0,4096}(?:\u0007|\u001b\\|\u009c)?|\[[\u0020-\u003f]{0,64}[\u0040-\u007e]?|[\u0020-\u002f]{0,8}[\u0030-\u007e]?)/;

/**
 * The part of a log that may reach a terminal, piece by piece. A sequence may be cut between two pieces, so its
 * beginning waits for the next one.
 */
export class LogFilter {
  readonly #hasColours: boolean;
  #rest = '';

  constructor(hasColours: boolean) {
    this.#hasColours = hasColours;
  }

  write(text: string): string {
    const whole = this.#rest + text;
    const begins = whole.endsWith('\r') ? whole.length - 1 : whole.lastIndexOf('\u001b');
    const isCut = begins >= 0 && whole.length - begins < 4200 && !isComplete(whole.slice(begins));
    this.#rest = isCut ? whole.slice(begins) : '';
    return this.#filtered(isCut ? whole.slice(0, begins) : whole);
  }

  end(): string {
    const rest = this.#filtered(this.#rest);
    this.#rest = '';
    return this.#hasColours ? `${rest}\u001b[0m` : rest;
  }

  #filtered(text: string): string {
    let shown = '';
    for (let at = 0; at < text.length;) {
      const next = text.indexOf('\u001b', at);
      shown += visible(text.slice(at, next < 0 ? undefined : next));
      if (next < 0) break;
      const rest = text.slice(next, next + 4200);
      const [colour] = sgr.exec(rest) ?? [];
      if (colour !== undefined && this.#hasColours) shown += colour;
      const [sequence = ''] = colour === undefined ? (sequences.exec(rest) ?? []) : [colour];
      at = next + Math.max(1, sequence.length);
    }
    return shown;
  }
}

function isComplete(sequence: string): boolean {
  if (sequence.length === 1) return false; // it may also be the first half of a line end
  const kind = sequence[1] ?? '';
  if (kind === '[') return /^\u001b\[[\u0020-\u003f]*[^\u0020-\u003f]/.test(sequence);
  if (/[\]PX^_]/.test(kind)) return /[\u0007\u009c]|\u001b\\/.test(sequence.slice(2));
  return /^\u001b[\u0020-\u002f]*[^\u0020-\u002f]/.test(sequence);
}

/** A line that was overwritten (progress bars) becomes several; other control characters become visible. */
function visible(text: string): string {
  return text
    .replaceAll(/\r+\n/g, '\n')
    .replaceAll('\r', '\n')
    .replaceAll(acting, (one) => (one === '\n' || one === '\t' || harmless.has(one) ? one : '\ufffd'));
}

const wide =
  /^[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Script=Bopomofo}\p{Script=Yi}\p{Emoji_Presentation}\u3000-\u303e\uff01-\uff60\uffe0-\uffe6]/u;
const narrow = /^[\uff61-\uffdc]/u;

function graphemes(text: string): string[] {
  return Array.from(new Intl.Segmenter(undefined, { granularity: 'grapheme' }).segment(text), ({ segment }) => segment);
}

function widthOfOne(grapheme: string): number {
  if (/^[\p{M}\u200b-\u200f\u00ad]/u.test(grapheme)) return 0;
  return (wide.test(grapheme) && !narrow.test(grapheme)) || grapheme.includes('\ufe0f') ? 2 : 1;
}

const isAscii = (text: string): boolean => /^[\x20-\x7e]*$/.test(text);

/** How many columns of a terminal a clean text takes. */
export function width(text: string): number {
  if (isAscii(text)) return text.length;
  return graphemes(text).reduce((sum, one) => sum + widthOfOne(one), 0);
}

/** The text in at most this many columns, with an ellipsis if it was cut. */
export function fit(text: string, columns: number): string {
  if (columns <= 0) return '';
  if (width(text) <= columns) return text;
  if (isAscii(text)) return `${text.slice(0, columns - 1)}…`;
  let shown = '';
  let taken = 0;
  for (const one of graphemes(text)) {
    taken += widthOfOne(one);
    if (taken > columns - 1) break;
    shown += one;
  }
  return `${shown}…`;
}

export function padded(text: string, columns: number): string {
  return text + ' '.repeat(Math.max(0, columns - width(text)));
}
