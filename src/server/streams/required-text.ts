/*
 * Every matching line contains at least one of these texts. Searching for the texts is a hundred times as fast as the
 * expression. The expression then runs only on lines that contain one. If the texts are uncertain, the result is
 * undefined, and the expression runs on every line.
 */

export interface Required {
  texts: string[];
  ignoresCase: boolean;
  /** Whether every line that contains one of the texts matches. */
  isAll: boolean;
}

const mostTexts = 40;

export function requiredTexts(expression: string): Required | undefined {
  const [flags] = /^\(\?[is]*\)/.exec(expression) ?? [''];
  const rest = expression.slice(flags.length);
  const ignoresCase = flags.includes('i');
  // Flags in the middle and quoted text are rare, and not parsed.
  if (/\(\?(?![:P<])|\\[QExpPC]|\\[0-7]/.test(rest)) return undefined;
  const parser = new Parser(rest, ignoresCase);
  const texts = parser.alternatives();
  if (!texts || !parser.isAtEnd || texts.length > mostTexts || texts.includes('')) return undefined;
  return { texts, ignoresCase, isAll: parser.isPlain && !ignoresCase };
}

type Texts = string[] | undefined;

class Parser {
  readonly #text: string;
  readonly #ignoresCase: boolean;
  #at = 0;
  /** Whether the expression has only characters and `|` so far. */
  isPlain = true;

  constructor(text: string, ignoresCase: boolean) {
    this.#text = text;
    this.#ignoresCase = ignoresCase;
  }

  get isAtEnd(): boolean {
    return this.#at >= this.#text.length;
  }

  alternatives(): Texts {
    const all: string[] = [];
    let isSure = true;
    for (;;) {
      const texts = this.#sequence();
      if (texts) all.push(...texts);
      else isSure = false;
      if (this.#text[this.#at] !== '|') return isSure ? all : undefined;
      this.#at += 1;
    }
  }

  #sequence(): Texts {
    let best: Texts;
    let run = '';
    const offer = (texts: Texts): void => {
      if (texts && shortest(texts) > shortest(best ?? [''])) best = texts;
    };
    const endRun = (next = ''): void => {
      if (run !== '') offer([run]);
      run = next;
    };
    while (!this.isAtEnd && !'|)'.includes(this.#text[this.#at] as string)) {
      const atom = this.#atom();
      const least = this.#repetition();
      if (typeof atom === 'string') {
        if (least === undefined) run += atom;
        else if (least > 0) {
          run += atom;
          endRun(atom);
        } else endRun();
        continue;
      }
      endRun();
      if (least === undefined || least > 0) offer(atom.texts);
    }
    endRun();
    return best;
  }

  /** A literal character, or the texts of a group. No texts for an ambiguous atom. */
  #atom(): string | { texts: Texts } {
    const character = String.fromCodePoint(this.#text.codePointAt(this.#at) ?? 0);
    this.#at += character.length;
    if (character === '\\') return this.#escaped();
    if (character === '(') {
      this.isPlain = false;
      const [head] = /^\?(?::|P?<\w+>)/.exec(this.#text.slice(this.#at)) ?? [''];
      this.#at += head.length;
      const texts = this.alternatives();
      this.#at += 1;
      return { texts };
    }
    if (character === '[') {
      this.isPlain = false;
      const [rest] = /^\^?\]?(?:\[:\^?\w+:\]|\\[\s\S]|[^\]\\])*\]/.exec(this.#text.slice(this.#at)) ?? [''];
      this.#at += rest === '' ? this.#text.length : rest.length;
      return { texts: undefined };
    }
    if ('.^$'.includes(character)) {
      this.isPlain = false;
      return { texts: undefined };
    }
    return this.#itself(character);
  }

  #escaped(): string | { texts: Texts } {
    const character = this.#text[this.#at++] ?? '';
    if (/[^\w\s]/.test(character) && character.charCodeAt(0) < 128) return this.#itself(character);
    this.isPlain = false;
    return { texts: undefined };
  }

  /** If case is ignored, only ASCII characters are searched for. */
  #itself(character: string): string | { texts: Texts } {
    if (!this.#ignoresCase || character.charCodeAt(0) < 128) return character;
    this.isPlain = false;
    return { texts: undefined };
  }

  /** The minimum of a repetition. Undefined without one. */
  #repetition(): number | undefined {
    const [found, least] = /^(?:[*+?]|\{(\d+)(?:,\d*)?\})\??/.exec(this.#text.slice(this.#at)) ?? [''];
    if (found === '') return undefined;
    this.#at += found.length;
    this.isPlain = false;
    const first = least === undefined ? (found.startsWith('+') ? 1 : 0) : Number(least);
    // A repetition of a repetition may be zero.
    return this.#repetition() === undefined ? first : 0;
  }
}

function shortest(texts: readonly string[]): number {
  return texts.length === 0 ? 0 : Math.min(...texts.map((text) => text.length));
}
