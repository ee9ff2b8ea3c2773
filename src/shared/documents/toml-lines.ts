/** The parser reports positions only for errors. */

/** More than any document needs, and safe for every stack. */
export const mostLevels = 10;

type Path = readonly (string | number)[];

/** The line of each table, key and list entry, by its path as JSON. The text must be valid TOML. */
export function linesOfToml(text: string): Map<string, number> {
  return new TomlLines(text).lines;
}

class TomlLines {
  readonly lines = new Map<string, number>();
  readonly #text: string;
  #at = 0;
  #line = 1;
  /** Line breaks are counted up to here. */
  #counted = 0;
  readonly #counts = new Map<string, number>();

  constructor(text: string) {
    this.#text = text;
    let table: Path = [];
    for (this.#skip(true); this.#at < text.length; this.#skip(true)) {
      if (this.#text[this.#at] === '[') table = this.#header();
      else this.#entry(table);
    }
  }

  #header(): Path {
    const isList = this.#text[this.#at + 1] === '[';
    this.#at += isList ? 2 : 1;
    const names = this.#names();
    this.#at += isList ? 2 : 1;
    const inside = names.slice(0, -1).reduce<Path>((outer, one) => this.#within(this.#noted([...outer, one])), []);
    const path = this.#noted([...inside, names.at(-1) ?? '']);
    if (!isList) return path;
    const key = JSON.stringify(path);
    this.#counts.set(key, (this.#counts.get(key) ?? 0) + 1);
    return this.#noted(this.#within(path));
  }

  /** The last table of a list so far, or the table itself. */
  #within(path: Path): Path {
    const count = this.#counts.get(JSON.stringify(path));
    return count === undefined ? path : [...path, count - 1];
  }

  /** `name = value`, in a table or in an inline table. */
  #entry(table: Path): void {
    const from = this.#at;
    const path = this.#names().reduce<Path>((inside, one) => this.#noted([...inside, one]), table);
    this.#at += 1; // =
    this.#skip(false);
    this.#value(path);
    if (this.#at === from) this.#at += 1;
  }

  #value(path: Path): void {
    const first = this.#text[this.#at];
    if (first === '"' || first === "'") return void this.#string(first);
    if (first !== '[' && first !== '{') return this.#bare();
    this.#at += 1;
    for (let index = 0; this.#at < this.#text.length;) {
      this.#skip(true);
      const next = this.#text[this.#at];
      if (next === ']' || next === '}') break;
      if (next === ',') {
        this.#at += 1;
        index += 1;
      } else if (first === '{') this.#entry(path);
      else {
        this.#value(this.#noted([...path, index]));
      }
    }
    this.#at += 1;
  }

  #bare(): void {
    const from = this.#at;
    while (this.#at < this.#text.length && !/[\s,\]}#]/.test(this.#text[this.#at] ?? '')) this.#at += 1;
    if (this.#at === from) this.#at += 1;
  }

  #string(quote: string): string {
    const long = quote.repeat(3);
    const end = this.#text.startsWith(long, this.#at) ? long : quote;
    const from = this.#at + end.length;
    let to = this.#text.indexOf(end, from);
    if (quote === '"') while (to > 0 && this.#isEscaped(to, from)) to = this.#text.indexOf(end, to + 1);
    if (to < 0) to = this.#text.length;
    // Up to two more quotes belong to a long text that ends with them.
    if (end === long) while (this.#text[to + 3] === quote) to += 1;
    this.#at = to + end.length;
    return this.#text.slice(from, to);
  }

  #isEscaped(at: number, from: number): boolean {
    let backslashes = 0;
    while (at - 1 - backslashes >= from && this.#text[at - 1 - backslashes] === '\\') backslashes += 1;
    return backslashes % 2 === 1;
  }

  #names(): string[] {
    const names: string[] = [];
    do {
      if (names.length > 0) this.#at += 1; // .
      this.#skip(false);
      const first = this.#text[this.#at] ?? '';
      if (first === '"') names.push(unescaped(this.#string(first)));
      else if (first === "'") names.push(this.#string(first));
      else {
        const from = this.#at;
        while (/[\w-]/.test(this.#text[this.#at] ?? '')) this.#at += 1;
        names.push(this.#text.slice(from, this.#at));
      }
      this.#skip(false);
    } while (this.#text[this.#at] === '.');
    return names.slice(0, mostLevels + 1); // more are refused anyway
  }

  /** White space, and with `lines` also line breaks and comments. */
  #skip(lines: boolean): void {
    for (;;) {
      const next = this.#text[this.#at];
      if (next === ' ' || next === '\t' || (lines && (next === '\n' || next === '\r'))) this.#at += 1;
      else if (lines && next === '#') {
        const end = this.#text.indexOf('\n', this.#at);
        this.#at = end < 0 ? this.#text.length : end;
      } else return;
    }
  }

  /** The first line of a path counts. */
  #noted(path: Path): Path {
    while (this.#counted < this.#at) {
      const next = this.#text.indexOf('\n', this.#counted);
      if (next < 0 || next >= this.#at) this.#counted = this.#at;
      else {
        this.#counted = next + 1;
        this.#line += 1;
      }
    }
    if (path.length > mostLevels) return path;
    const key = JSON.stringify(path);
    if (!this.lines.has(key)) this.lines.set(key, this.#line);
    return path;
  }
}

function unescaped(text: string): string {
  try {
    return JSON.parse(`"${text}"`) as string;
  } catch {
    return text;
  }
}
