/** Expressions of GitHub Actions: `github.ref == 'refs/heads/main' && !matrix.skip`. */
export type Expression =
  | { value: string | number | boolean | null }
  /** In lower case, except for the names below `secrets`, `env`, `matrix` and the like. */
  | { name: string }
  | { call: string; args: Expression[] }
  | { operator: string; args: Expression[] };

const token = /\s*(?:('(?:[^']|'')*')|(-?\d+(?:\.\d+)?(?![\w.]))|([A-Za-z_][\w-]*)|(&&|\|\||[=!<>]=|[!<>()[\],.*]))/;

/** A deeper expression is of no workflow that a person reads. */
const mostTokens = 300;

/** Undefined if it is not well formed. */
export function readExpression(text: string): Expression | undefined {
  const tokens: string[] = [];
  const whole = text.trim();
  const reader = new RegExp(token, 'y');
  while (reader.lastIndex < whole.length) {
    const found = reader.exec(whole);
    if (!found || tokens.length >= mostTokens) return undefined;
    tokens.push(found[0].trim());
  }
  try {
    const parser = new Reader(tokens);
    const read = parser.either();
    return parser.isDone ? read : undefined;
  } catch {
    return undefined;
  }
}

class Reader {
  readonly #tokens: readonly string[];
  #at = 0;

  constructor(tokens: readonly string[]) {
    this.#tokens = tokens;
  }

  get isDone(): boolean {
    return this.#at === this.#tokens.length;
  }

  #next(): string {
    const next = this.#tokens[this.#at];
    if (next === undefined) throw new Error('the expression ends early');
    this.#at += 1;
    return next;
  }

  #takes(wanted: string): boolean {
    if (this.#tokens[this.#at] !== wanted) return false;
    this.#at += 1;
    return true;
  }

  #expect(wanted: string): void {
    if (!this.#takes(wanted)) throw new Error(`no ${wanted}`);
  }

  either(): Expression {
    const args = [this.#both()];
    while (this.#takes('||')) args.push(this.#both());
    return args.length === 1 ? (args[0] as Expression) : { operator: '||', args };
  }

  #both(): Expression {
    const args = [this.#compared()];
    while (this.#takes('&&')) args.push(this.#compared());
    return args.length === 1 ? (args[0] as Expression) : { operator: '&&', args };
  }

  #compared(): Expression {
    const left = this.#not();
    const operator = ['==', '!=', '<', '>', '<=', '>='].find((one) => this.#takes(one));
    return operator === undefined ? left : { operator, args: [left, this.#not()] };
  }

  #not(): Expression {
    if (this.#takes('!')) return { operator: '!', args: [this.#not()] };
    return this.#value();
  }

  #value(): Expression {
    const next = this.#next();
    if (next === '(') {
      const inner = this.either();
      this.#expect(')');
      return inner;
    }
    if (next.startsWith("'")) return { value: next.slice(1, -1).replaceAll("''", "'") };
    if (/^-?\d/.test(next)) return { value: Number(next) };
    if (next === 'true' || next === 'false') return { value: next === 'true' };
    if (next === 'null') return { value: null };
    if (!/^[A-Za-z_]/.test(next)) throw new Error(`unexpected ${next}`);
    if (!this.#takes('(')) return { name: this.#path(next) };
    const args: Expression[] = [];
    if (!this.#takes(')')) {
      do args.push(this.either());
      while (this.#takes(','));
      this.#expect(')');
    }
    return { call: next.toLowerCase(), args };
  }

  #path(first: string): string {
    const parts = [first.toLowerCase()];
    for (;;) {
      if (this.#takes('.')) parts.push(this.#next());
      else if (this.#takes('[')) {
        const index = this.either();
        if (!('value' in index)) throw new Error('a computed name');
        parts.push(String(index.value));
        this.#expect(']');
      } else return parts.join('.');
    }
  }
}

/** More in one text take long, and are of no workflow that a person reads. */
const mostExpressions = 500;

/** The parts of a text with `${{ … }}`: texts, and expressions with where they begin. Undefined if one is malformed. */
export function partsOf(text: string): (string | Expression)[] | undefined {
  const parts: (string | Expression)[] = [];
  let from = 0;
  for (const found of text.matchAll(/\$\{\{((?:'[^']*'|(?!\}\})[^'])*)\}\}/g)) {
    const read = readExpression(found[1] ?? '');
    if (!read || parts.length > 2 * mostExpressions) return undefined;
    parts.push(text.slice(from, found.index), read);
    from = found.index + found[0].length;
  }
  parts.push(text.slice(from));
  return parts.some((part) => typeof part === 'string' && part.includes('${{')) ? undefined : parts;
}
