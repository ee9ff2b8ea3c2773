/** Nothing here creates markup: pieces are text, and links lead only to http or https. Servers use this file too. */

export interface Style {
  /** One of 16 colours, of 256 (+ 16) or of all (+ 512). None is -1. */
  colour: number;
  ground: number;
  bold: boolean;
  faint: boolean;
  italic: boolean;
  underline: boolean;
  inverse: boolean;
  struck: boolean;
}

export interface Piece {
  text: string;
  style: Style;
  link: string | undefined;
}

export const plain: Style = {
  colour: -1,
  ground: -1,
  bold: false,
  faint: false,
  italic: false,
  underline: false,
  inverse: false,
  struck: false,
};

export const anyColour = 512;

/** The classes of lines that say why a build failed. */
export const markClasses = { '': '', failure: 'log-failure', stack: 'log-stack' } as const;

/** The limit keeps a line of only escape sequences from blocking the page. */
const mostPieces = 100;

/** Escape sequences: colours and links, cursor movements and erasing, and all others, which are dropped. */
const sequences =
  // oxlint-disable-next-line no-control-regex -- control characters are what this is about
  /\x1b(?:\[([\x30-\x3f]*)[\x20-\x2f]*([\x40-\x7e]?)|\](\d*);?([^\x07\x1b\n]*)(?:\x07|\x1b\\)?|[^[\]]?)/g;

export function styleOf(parameters: string, before: Style = plain): Style {
  const style = { ...before };
  const codes = parameters.split(/[;:]/).map(Number);
  for (let at = 0; at < codes.length; at += 1) {
    const code = codes[at] ?? 0;
    if (code === 0) Object.assign(style, plain);
    else if (code === 1) style.bold = true;
    else if (code === 2) style.faint = true;
    else if (code === 3) style.italic = true;
    else if (code === 4 || code === 21) style.underline = true;
    else if (code === 7) style.inverse = true;
    else if (code === 9) style.struck = true;
    else if (code === 22) style.bold = style.faint = false;
    else if (code === 23) style.italic = false;
    else if (code === 24) style.underline = false;
    else if (code === 27) style.inverse = false;
    else if (code === 29) style.struck = false;
    else if (code >= 30 && code <= 37) style.colour = code - 30;
    else if (code >= 90 && code <= 97) style.colour = code - 82;
    else if (code === 39) style.colour = -1;
    else if (code >= 40 && code <= 47) style.ground = code - 40;
    else if (code >= 100 && code <= 107) style.ground = code - 92;
    else if (code === 49) style.ground = -1;
    else if (code === 38 || code === 48) {
      const [colour, used] = extended(codes, at + 1);
      if (colour >= 0) style[code === 38 ? 'colour' : 'ground'] = colour;
      at += used;
    }
  }
  return style;
}

function isByte(value: number | undefined): value is number {
  return value !== undefined && value >= 0 && value <= 255;
}

function extended(codes: readonly number[], at: number): [colour: number, used: number] {
  const [kind, a, b, c] = codes.slice(at, at + 4);
  if (kind === 5) return [isByte(a) ? (a < 16 ? a : a + 16) : -1, 2];
  if (kind !== 2) return [-1, 0];
  return [isByte(a) && isByte(b) && isByte(c) ? anyColour + ((a << 16) | (b << 8) | c) : -1, 4];
}

export function piecesOf(line: string, before: Style): { pieces: Piece[]; after: Style } {
  // oxlint-disable-next-line no-control-regex -- these move the cursor
  const moves = /[\r\x08]|\x1b\[[\d;]*[CDGK]/.test(line.endsWith('\r') ? line.slice(0, -1) : line);
  const screen = moves ? new Cells() : new Pieces();
  let style = before;
  let link: string | undefined;
  let at = 0;
  for (const found of line.matchAll(sequences)) {
    screen.write(line.slice(at, found.index), style, link);
    at = found.index + found[0].length;
    const [, parameters = '', final = '', kind = '', rest = ''] = found;
    if (final === 'm' && !/[<-?]/.test(parameters)) style = styleOf(parameters, style);
    else if (kind === '8') link = linkTo(rest.slice(rest.indexOf(';') + 1));
    else if (final !== '' && moves) screen.control(final, parameters);
  }
  screen.write(line.slice(at), style, link);
  return { pieces: screen.pieces(), after: style };
}

function linkTo(address: string): string | undefined {
  if (!/^https?:\/\//i.test(address) || !URL.canParse(address)) return undefined;
  return address;
}

/** Characters that are invisible or change the text direction. Each is replaced by a sign. */
// oxlint-disable-next-line no-control-regex -- control characters are what this is about
const unseen = /[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g;

function shown(text: string): string {
  return text.replaceAll(unseen, (character) => {
    const code = character.charCodeAt(0);
    return code < 32 ? String.fromCharCode(0x2400 + code) : code === 127 ? '\u2421' : '\ufffd';
  });
}

class Pieces {
  readonly #pieces: Piece[] = [];

  write(text: string, style: Style, link: string | undefined): void {
    const visible = shown(text.replace(/\r$/, ''));
    if (visible === '') return;
    const last = this.#pieces.at(-1);
    const isSame = last && last.style === style && last.link === link;
    if (last && (isSame || this.#pieces.length >= mostPieces)) last.text += visible;
    else this.#pieces.push({ text: visible, style, link });
  }

  control(_final: string, _parameters: string): void {}

  pieces(): Piece[] {
    return this.#pieces;
  }
}

const widest = 4096;

class Cells {
  #cells: { text: string; style: Style; link: string | undefined }[] = [];
  #at = 0;

  write(text: string, style: Style, link: string | undefined): void {
    for (const character of text) {
      if (character === '\r') this.#at = 0;
      else if (character === '\b') this.#at = Math.max(0, this.#at - 1);
      else if (this.#at < widest) {
        while (this.#cells.length < this.#at) this.#cells.push({ text: ' ', style: plain, link: undefined });
        this.#cells[this.#at++] = { text: character, style, link };
      }
    }
  }

  control(final: string, parameters: string): void {
    const number = Number.parseInt(parameters, 10);
    const count = Number.isNaN(number) ? 1 : Math.min(Math.max(number, 1), widest);
    if (final === 'C') this.#at = Math.min(widest, this.#at + count);
    else if (final === 'D') this.#at = Math.max(0, this.#at - count);
    else if (final === 'G') this.#at = count - 1;
    else if (final === 'K') this.#erase(Number.isNaN(number) ? 0 : number);
  }

  /** 0: from the cursor to the end, 1: from the beginning to the cursor, 2: the whole line. */
  #erase(which: number): void {
    if (which === 2) this.#cells = [];
    else if (which === 0) this.#cells.length = Math.min(this.#cells.length, this.#at);
    else if (which === 1) {
      const blank = { text: ' ', style: plain, link: undefined };
      for (let at = 0; at <= this.#at && at < this.#cells.length; at += 1) this.#cells[at] = blank;
    }
  }

  pieces(): Piece[] {
    const pieces = new Pieces();
    for (const { text, style, link } of this.#cells) pieces.write(text, style, link);
    return pieces.pieces();
  }
}

export function groupOf(line: string): { opens: string } | 'closes' | undefined {
  const group = /^(?:::group::|--- )(.*)$/s.exec(line);
  // oxlint-disable-next-line no-control-regex -- sequences are no part of a name
  if (group) return { opens: shown((group[1] ?? '').replaceAll(sequences, '').trim()) };
  return line.startsWith('::endgroup::') ? 'closes' : undefined;
}
