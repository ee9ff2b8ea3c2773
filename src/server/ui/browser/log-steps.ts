import { make } from './log-dom.ts';
import type { Rows } from './log-rows.ts';

interface Step {
  state: string;
  /** The first line of its part of the log. Undefined if it has none. */
  line: number | undefined;
  /** When it began, in milliseconds since the log began. */
  began: number;
  content: ChildNode[];
}

/** The steps of the page's list, as headings in the log. The list follows the build (`fresh.ts`). */
export class Steps {
  readonly #rows: Rows;
  #steps: Step[] = [];
  #markup = '';

  constructor(rows: Rows) {
    this.#rows = rows;
  }

  /** Reads the list again. Returns the steps that have passed since then, and undefined if nothing changed. */
  read(): number[] | undefined {
    const list = document.getElementById('steps');
    // Running times change every second.
    const markup = list?.innerHTML.replaceAll(/(data-since="[^"]*">)[^<]*/g, '$1') ?? '';
    if (!list || markup === this.#markup) return undefined;
    this.#markup = markup;
    const before = this.#steps;
    this.#steps = Array.from(list.querySelectorAll('li'), ({ dataset, firstElementChild: content }) => ({
      state: dataset['state'] ?? '',
      line: dataset['line'] === undefined ? undefined : Number(dataset['line']),
      began: Number(dataset['began'] ?? 0),
      content: Array.from(content?.childNodes ?? []),
    }));
    // A step that did not run stands before the next one that did.
    let next = Infinity;
    this.#rows.headings = this.#steps
      .toReversed()
      .map(({ line }) => (next = line ?? next))
      .toReversed();
    return this.#steps.flatMap(({ state }, at) => (state === 'passed' && before[at]?.state !== 'passed' ? [at] : []));
  }

  get failed(): number | undefined {
    const step = this.#steps.findIndex(({ state }) => state === 'failed' || state === 'cancelled');
    return step < 0 ? undefined : step;
  }

  /** True if all have ended. */
  get areOver(): boolean {
    return this.#steps.length > 0 && this.#steps.every(({ state }) => state !== 'running' && state !== 'waiting');
  }

  beganAt(line: number): number {
    return this.#steps[this.#rows.stepOf(line) ?? -1]?.began ?? 0;
  }

  heading(step: number): HTMLElement {
    const { content = [], line } = this.#steps[step] ?? {};
    const parts = content.map((node) => node.cloneNode(true));
    const isClosed = String(!this.#rows.isClosed(step));
    const heading = make('h2', { class: 'log-step', 'data-step': String(step) });
    if (line === undefined) heading.append(...parts);
    else heading.append(make('button', { type: 'button', 'aria-expanded': isClosed }, ...parts));
    return heading;
  }
}
