/* oxlint-disable no-control-regex -- control characters are what this is about */
/**
 * Untrusted text on a terminal: anyone who can push writes names, messages and logs. Sequences in it could move the
 * cursor, write into the shell's input or reverse text. So none reaches the terminal, except colours from a log.
 */

/** Control characters, and characters that hide or reverse the text next to them. */
const acting = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;
/** These join or separate letters and emoji. They are harmless, and belong to names. */
const harmless = new Set(['\u200c', '\u200d', '\u00ad']);

/** One line without anything that acts on a terminal. */
export function clean(text: string): string {
  return text.replaceAll(/[\r\n\t]+/g, ' ').replaceAll(acting, (one) => (harmless.has(one) ? one : '\ufffd'));
}

export function words(parts: TemplateStringsArray, ...values: readonly (string | number)[]): string {
  return String.raw({ raw: parts }, ...values.map((value) => clean(String(value))));
}

const sgr = /^\u001b\[[\d;:]{0,64}m/;
// Strings to the terminal (titles, clipboards, pictures) are dropped with their content, others whole.
const sequences =
  /^\u001b(?:[\]PX^_][^\u0007\u001b\u009c]{0,4096}(?:\u0007|\u001b\\|\u009c)?|\[[\u0020-\u003f]{0,64}[\u0040-\u007e]?|[\u0020-\u002f]{0,8}[\u0030-\u007e]?)/;

/** Works piece by piece. A sequence may be cut between two pieces, so its beginning waits. */
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

/** A line that was overwritten (progress bars) becomes several. Other control characters become visible. */
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

/** In columns of a terminal, for a clean text. */
export function width(text: string): number {
  if (isAscii(text)) return text.length;
  return graphemes(text).reduce((sum, one) => sum + widthOfOne(one), 0);
}

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
