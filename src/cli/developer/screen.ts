import { writeJson } from '../client/json.ts';
import { fit, padded, width, clean } from './text.ts';

/** Output is for users on a terminal, for users elsewhere, or for programs. */
const codes = { red: 31, green: 32, yellow: 33, cyan: 36, dim: 2, bold: 1 };
export type Colour = keyof typeof codes;

export interface Painted {
  text: string;
  colour?: Colour | undefined;
}
export type Cell = string | Painted;

export interface Column {
  title: string;
  /** Columns with the highest number are shortened first. */
  gives?: number;
  isNumber?: boolean;
}

export class Screen {
  readonly out = process.stdout;
  readonly err = process.stderr;
  readonly isJson: boolean;
  readonly isLive: boolean;
  readonly hasColours: boolean;
  #gathered: object | undefined;

  constructor({ plain = false, json = false }: { plain?: boolean; json?: boolean }, env: NodeJS.ProcessEnv) {
    this.isJson = json;
    const isTerminal = this.out.isTTY && !plain && env.TERM !== 'dumb';
    this.isLive = isTerminal && !json;
    this.hasColours = isTerminal && (env.NO_COLOR ?? '') === '';
  }

  /** A file has any number of columns. */
  get columns(): number {
    return this.out.isTTY ? Math.max(10, this.out.columns || 80) : Number.POSITIVE_INFINITY;
  }

  get rows(): number {
    return Math.max(4, this.out.rows || 24);
  }

  /** Nothing if the output is for a program. */
  print(text: string): void {
    if (!this.isJson) this.out.write(`${text}\n`);
  }

  /** On standard error: hints and questions. */
  hint(text: string): void {
    this.err.write(`${text}\n`);
  }

  json(value: object): void {
    if (this.#gathered) Object.assign(this.#gathered, value);
    else this.out.write(`${writeJson(value)}\n`);
  }

  /** Joins JSON records into one until it is disposed, for a command that calls others. */
  gather(): Disposable {
    const all = (this.#gathered = {});
    const end = (): void => {
      this.#gathered = undefined;
      if (this.isJson && Object.keys(all).length > 0) this.json(all);
    };
    return { [Symbol.dispose]: end };
  }

  paint(text: string, colour: Colour | undefined): string {
    return this.hasColours && colour !== undefined ? `\u001b[${codes[colour]}m${text}\u001b[0m` : text;
  }

  /** If the rows are too wide, columns are shortened, and then omitted. */
  table(columns: readonly Column[], rows: readonly (readonly Cell[])[]): void {
    if (this.isJson) return;
    const cells = rows.map((row) => row.map(asPainted));
    const widths = columns.map(({ title }, at) =>
      Math.max(width(title), ...cells.map((row) => width(row[at]?.text ?? ''))),
    );
    const shown = fitted(columns, widths, this.columns);
    const print = (row: readonly Painted[]): void => {
      const parts = shown.map(([at, columnWidth], position) => {
        const { text, colour } = row[at] ?? { text: '' };
        const short = fit(text, columnWidth);
        const gap = ' '.repeat(Math.max(0, columnWidth - width(short)));
        const isLast = position === shown.length - 1;
        if (columns[at]?.isNumber) return `${gap}${this.paint(short, colour)}`;
        return `${this.paint(short, colour)}${isLast ? '' : gap}`;
      });
      this.print(parts.join('  ').trimEnd());
    };
    print(columns.map(({ title }) => ({ text: title, colour: 'dim' })));
    for (const row of cells) print(row);
  }

  facts(pairs: readonly (readonly [string, Cell])[]): void {
    const longest = Math.max(...pairs.map(([name]) => name.length));
    for (const [name, cell] of pairs) {
      const { text, colour } = asPainted(cell);
      const room = this.columns - longest - 2;
      this.print(`${this.paint(padded(name, longest), 'dim')}  ${this.paint(fit(text, room), colour)}`);
    }
  }
}

function asPainted(cell: Cell): Painted {
  return typeof cell === 'string' ? { text: clean(cell) } : { ...cell, text: clean(cell.text) };
}

const leastWidth = 8;

function fitted(columns: readonly Column[], widths: readonly number[], room: number): [number, number][] {
  let shown = columns.map((_, at) => at);
  const all = [...widths];
  const needed = (): number => shown.reduce((sum, at) => sum + (all[at] ?? 0), 0) + 2 * (shown.length - 1);
  const givingWay = columns
    .map(({ gives = 0 }, at) => ({ gives, at }))
    .filter(({ gives }) => gives > 0)
    .toSorted((a, b) => b.gives - a.gives);
  for (const { at } of givingWay) {
    const excess = needed() - room;
    if (excess <= 0) break;
    all[at] = Math.max(Math.min(leastWidth, all[at] ?? 0), (all[at] ?? 0) - excess);
  }
  for (const { at } of givingWay) {
    if (needed() <= room || shown.length === 1) break;
    shown = shown.filter((one) => one !== at);
  }
  const [last] = shown.slice(-1);
  const excess = needed() - room;
  if (last !== undefined && excess > 0) all[last] = Math.max(1, (all[last] ?? 0) - excess);
  return shown.map((at) => [at, all[at] ?? 0]);
}
