/*
 * Reads the colours and styles of terminal sequences (SGR, ECMA-48 8.3.117). A style as text is the shortest sequence
 * that sets it: '' is the default, '1;31' is bold and red. A log may consist of sequences, so reading one creates no
 * objects.
 */

const bold = 0;
const faint = 1;
const colour = 7;
const ground = 8;
/** 1 bold, 2 faint, 3 italic, 4 underlined, 7 inverse, 8 hidden, 9 struck. Then the two colours. */
const places: readonly number[] = [-1, bold, faint, 2, 3, -1, -1, 4, 5, 6];
const size = 9;
/** Above the codes of a terminal's own colours: one of 256, and an RGB colour. */
const of256 = 0x1000;
const ofAll = 0x1000000;

function isByte(value = -1): boolean {
  return value >= 0 && value <= 255;
}

export class TextStyle {
  readonly #codes = new Int32Array(size);
  readonly #read = new Int32Array(32);

  constructor(style = '') {
    if (style !== '') this.change(Buffer.from(style, 'latin1'), 0, style.length);
  }

  /** The parameters are in these bytes. Unknown parameters change nothing. */
  change(bytes: Uint8Array, from: number, to: number): void {
    const read = this.#read;
    let count = 0;
    let value = 0;
    for (let at = from; at <= to && count < read.length; at += 1) {
      const byte = at < to ? (bytes[at] as number) : 0x3b;
      if (byte >= 0x30 && byte <= 0x39) value = Math.min(value * 10 + byte - 0x30, 100_000);
      else {
        read[count++] = value;
        value = 0;
      }
    }
    for (let at = 0; at < count; at += 1) {
      const code = read[at] as number;
      if (code === 38 || code === 48) at += this.#extended(code === 38 ? colour : ground, at, count);
      else this.#simple(code);
    }
  }

  #extended(place: number, at: number, count: number): number {
    const [kind, a, b, c] = [this.#read[at + 1], this.#read[at + 2], this.#read[at + 3], this.#read[at + 4]];
    if (kind === 5) {
      if (at + 2 < count && isByte(a)) this.#codes[place] = of256 + (a ?? 0);
      return 2;
    }
    if (kind !== 2) return 0;
    const isRight = at + 4 < count && isByte(a) && isByte(b) && isByte(c);
    if (isRight) this.#codes[place] = ofAll + (((a ?? 0) << 16) | ((b ?? 0) << 8) | (c ?? 0));
    return 4;
  }

  #simple(code: number): void {
    const codes = this.#codes;
    if (code === 0) codes.fill(0);
    else if (code <= 9) {
      const place = places[code] ?? -1;
      if (place >= 0) codes[place] = code;
    } else if (code === 21) codes[3] = 4;
    else if (code === 22) codes[bold] = codes[faint] = 0;
    else if (code >= 23 && code <= 29) {
      const place = places[code - 20] ?? -1;
      if (place >= 0) codes[place] = 0;
    } else if (code === 39) codes[colour] = 0;
    else if (code === 49) codes[ground] = 0;
    else if ((code >= 30 && code <= 37) || (code >= 90 && code <= 97)) codes[colour] = code;
    else if ((code >= 40 && code <= 47) || (code >= 100 && code <= 107)) codes[ground] = code;
  }

  toString(): string {
    const words: string[] = [];
    for (let at = 0; at < size; at += 1) {
      const code = this.#codes[at] as number;
      const way = at === ground ? 48 : 38;
      if (code >= ofAll) words.push(`${way};2;${(code >> 16) & 0xff};${(code >> 8) & 0xff};${code & 0xff}`);
      else if (code >= of256) words.push(`${way};5;${code - of256}`);
      else if (code > 0) words.push(String(code));
    }
    return words.join(';');
  }
}
