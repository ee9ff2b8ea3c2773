import type { Screen } from './screen.ts';

const drawEveryMs = 100;

/**
 * Lines at the end of the screen that change in place. They are overwritten, from the first one on that differs, so
 * nothing flickers. There are never more of them than the screen has rows: a line that has scrolled off the screen
 * cannot be changed any more, and would stay there as a duplicate.
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

  /** Something has changed. Many changes at once are shown together. */
  changed(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.#draw();
    }, drawEveryMs);
  }

  /** Draws the last state, and leaves it on the screen. */
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
    // A terminal that knows these two sequences shows everything between them at once. Others ignore them.
    this.#screen.out.write(`\u001b[?2026h${text}\u001b[?2026l`);
    this.#shown = lines;
  }

  /**
   * Terminals move lines when their width changes, each in its own way. So the old lines stay, and new ones are written
   * below.
   */
  #startAnew(): void {
    this.#shown = [];
    this.#draw();
  }
}
