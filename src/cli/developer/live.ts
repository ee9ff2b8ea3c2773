import type { Screen } from './screen.ts';

const drawEveryMs = 100;

/**
 * Lines at the end of the screen that change in place, overwritten from the first difference on, so nothing flickers.
 * They never exceed the screen's rows: a line that has scrolled off cannot be changed, and would stay as a duplicate.
 */
export class Live {
  readonly #screen: Screen;
  readonly #compose: () => readonly string[];
  #shown: string[] = [];
  #timer: NodeJS.Timeout | undefined;
  readonly #clock: NodeJS.Timeout;
  readonly #resized = (): void => this.#startAnew();

  /** `compose` makes lines that are not wider than the screen. */
  constructor(screen: Screen, compose: () => readonly string[]) {
    this.#screen = screen;
    this.#compose = compose;
    this.#clock = setInterval(() => this.#draw(), 1000).unref(); // updates the times
    screen.out.on('resize', this.#resized);
  }

  /** Many changes at once are shown together. */
  changed(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.#draw();
    }, drawEveryMs);
  }

  end(): void {
    clearTimeout(this.#timer);
    clearInterval(this.#clock);
    this.#screen.out.off('resize', this.#resized);
    this.#draw();
  }

  #draw(): void {
    const most = this.#screen.rows - 1;
    const all = this.#compose();
    const lines = all.length > most ? [...all.slice(0, most - 1), `… and ${all.length - most + 1} more`] : [...all];
    const before = this.#shown;
    const first = lines.findIndex((line, at) => line !== before[at]);
    if (first < 0 && lines.length === before.length) return;
    const from = first < 0 ? lines.length : first;
    const up = before.length > from ? `\u001b[${before.length - from}A` : '';
    const changed = lines.slice(from).map((line) => `${line}\u001b[K\r\n`);
    const text = `${up}\r${changed.join('')}\u001b[J`;
    // Terminals that know these two sequences show everything between them at once. Others ignore them.
    this.#screen.out.write(`\u001b[?2026h${text}\u001b[?2026l`);
    this.#shown = lines;
  }

  /**
   * Each terminal rewraps lines differently when its width changes. So the old lines stay, and new ones follow below.
   */
  #startAnew(): void {
    this.#shown = [];
    this.#draw();
  }
}
