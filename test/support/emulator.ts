/* oxlint-disable no-control-regex -- control characters are what this is about */
/**
 * A terminal, as far as the program uses one: text, lines, moving up, clearing. Anything else that it is sent is an
 * error, so a test also sees that nothing else is sent.
 */
export class Emulator {
  readonly #columns: number;
  readonly #rows: number;
  /** All lines, also those above the screen. */
  readonly #lines: string[][] = [[]];
  #row = 0;
  #column = 0;
  #rest = '';

  constructor(columns: number, rows: number) {
    this.#columns = columns;
    this.#rows = rows;
  }

  get text(): string {
    return this.#lines
      .map((line) => line.join('').trimEnd())
      .join('\n')
      .trimEnd();
  }

  write(text: string): void {
    let left = this.#rest + text;
    this.#rest = '';
    while (left !== '') {
      const [sequence] = /^\u001b(?:\[[\d;?]*[A-Za-z])?/.exec(left) ?? [];
      if (sequence === undefined) {
        const [character = ''] = left;
        this.#put(character);
        left = left.slice(character.length);
      } else if (/[A-Za-z]$/.test(sequence)) {
        this.#obey(sequence);
        left = left.slice(sequence.length);
      } else if (left.length < 20 && /^\u001b(\[[\d;?]*)?$/.test(left)) {
        this.#rest = left;
        return;
      } else throw new Error(`the terminal was sent ${JSON.stringify(left.slice(0, 20))}`);
    }
  }

  #put(character: string): void {
    if (character === '\r') this.#column = 0;
    else if (character === '\n') this.#down();
    else if (character === '\t') this.#column = Math.min(this.#columns - 1, (Math.floor(this.#column / 8) + 1) * 8);
    else if (/\p{Cc}/u.test(character)) throw new Error(`the terminal was sent ${JSON.stringify(character)}`);
    else {
      const cells = widthOf(character);
      if (this.#column + cells > this.#columns) {
        this.#column = 0;
        this.#down();
      }
      const line = this.#line;
      if (cells === 0) line[this.#column - 1] = `${line[this.#column - 1] ?? ''}${character}`;
      while (line.length < this.#column) line.push(' ');
      if (cells > 0) line[this.#column] = character;
      if (cells === 2) line[this.#column + 1] = '';
      this.#column += cells;
    }
  }

  #obey(sequence: string): void {
    const [, count = '', final = ''] = /^\u001b\[([\d;?]*)([A-Za-z])$/.exec(sequence) ?? [];
    // Colours, output in one piece, and that what is pasted is marked: nothing of it is to be seen. Nor of the question
    // where the cursor is, which a shell asks that does without the answer.
    if (final === 'm' || /^\u001b\[(\?(2026|2004)[hl]|6n)$/.test(sequence)) return;
    if (final === 'A') {
      const top = Math.max(0, this.#lines.length - this.#rows);
      if (this.#row - Number(count) < top) throw new Error('the cursor was sent above the screen');
      this.#row -= Number(count);
    } else if (sequence === '\u001b[2K') this.#line.length = 0;
    else if (sequence === '\u001b[K') this.#line.length = Math.min(this.#line.length, this.#column);
    else if (sequence === '\u001b[J') {
      this.#line.length = this.#column;
      this.#lines.length = this.#row + 1;
    } else throw new Error(`the terminal was sent ${JSON.stringify(sequence)}`);
  }

  #down(): void {
    this.#row += 1;
    if (this.#row === this.#lines.length) this.#lines.push([]);
  }

  get #line(): string[] {
    return this.#lines[this.#row] ?? [];
  }
}

function widthOf(character: string): number {
  if (/^[\p{M}\u200d]/u.test(character)) return 0;
  return /^[\u1100-\u115f\u2e80-\u303e\u3041-\uffa0\u{1f300}-\u{1faff}]/u.test(character) &&
    character !== '\ufffd' &&
    !/^[\ufe00-\ufe0f]/.test(character)
    ? 2
    : 1;
}
