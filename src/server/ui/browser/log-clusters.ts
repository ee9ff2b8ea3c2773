import { lineElement, make, rangesIn, showSelected } from './log-dom.ts';
import type { LogLine, LogSource, Matches } from './log-source.ts';
import { styleOf } from './log-text.ts';
import type { Rows } from './log-rows.ts';
import type { Steps } from './log-steps.ts';

export const clusterSize = 100;
/** Cached clusters, in addition to the visible ones. */
const mostKept = 40;
const nothing: Matches = { matches: [], complete: true, next: null };

interface Cluster {
  index: number;
  style: string;
  lines: LogLine[] | undefined;
  isLoading: boolean;
  isStale: boolean;
  element: HTMLElement | undefined;
  ranges: Range[];
}

export interface Selection {
  first: number;
  last: number;
}

/** Puts only the lines near the visible part of the log into the page. */
export class Clusters {
  readonly #source: LogSource;
  readonly #rows: Rows;
  readonly #space: HTMLElement;
  readonly #steps: Steps;
  readonly #clusters = new Map<number, Cluster>();
  #wanted = new Set<number>();
  #query = '';
  selection: Selection | undefined;
  onLoaded: () => void = () => {};

  constructor(source: LogSource, rows: Rows, steps: Steps, space: HTMLElement) {
    this.#source = source;
    this.#rows = rows;
    this.#steps = steps;
    this.#space = space;
  }

  show(first: number, last: number): void {
    const wanted = new Set<number>();
    const { count } = this.#rows;
    for (let row = Math.max(0, Math.floor(first)); row <= last && row < count;) {
      const index = clusterOf(this.#rows.lineAt(row));
      wanted.add(index);
      row = Math.max(row + 1, this.#rows.rowsBefore((index + 1) * clusterSize + 1));
    }
    this.#wanted = wanted;
    for (const [index, cluster] of this.#clusters) if (!wanted.has(index)) this.#hide(cluster);
    for (const index of wanted) this.#ensure(index);
    this.#forget();
    this.place();
  }

  place(): void {
    for (const index of this.#wanted) {
      const element = this.#clusters.get(index)?.element;
      if (element) element.style.transform = `translateY(${this.#rows.topOf(index * clusterSize + 1)}px)`;
    }
  }

  /** The previously last line may be longer now, so its cluster is loaded again too. */
  grown(before: number): void {
    const first = clusterOf(Math.max(1, before));
    for (const cluster of this.#clusters.values()) {
      if (cluster.index < first) continue;
      cluster.isStale = true;
      if (!cluster.lines) this.#hide(cluster); // headings alone, which may be elsewhere now
    }
  }

  redraw(): void {
    for (const index of this.#wanted) {
      const cluster = this.#clusters.get(index);
      if (cluster?.element) this.#draw(cluster);
    }
    this.place();
  }

  set query(query: string) {
    this.#query = query;
    for (const index of this.#wanted) {
      const cluster = this.#clusters.get(index);
      if (cluster) void this.#mark(cluster);
    }
  }

  textOf(line: number): string | undefined {
    return this.#clusters.get(clusterOf(line))?.lines?.find(({ number }) => number === line)?.text;
  }

  #ensure(index: number): void {
    const cluster: Cluster = this.#clusters.get(index) ?? {
      index,
      style: '',
      lines: undefined,
      isLoading: false,
      isStale: true,
      element: undefined,
      ranges: [],
    };
    this.#clusters.delete(index);
    this.#clusters.set(index, cluster); // now the most recently used cluster
    const hasLines = this.#rows.visibleIn(index * clusterSize + 1, (index + 1) * clusterSize) > 0;
    if (hasLines && cluster.isStale && !cluster.isLoading) void this.#load(cluster);
    else if (!cluster.element && (cluster.lines || !hasLines)) this.#draw(cluster);
  }

  async #load(cluster: Cluster): Promise<void> {
    cluster.isLoading = true;
    try {
      do {
        cluster.isStale = false;
        await this.#read(cluster);
        if (this.#wanted.has(cluster.index)) {
          this.#draw(cluster);
          this.place();
        }
      } while (cluster.isStale && this.#wanted.has(cluster.index));
    } catch {
      cluster.isStale = true; // refused, so it is requested again when the view moves or the log grows
    } finally {
      cluster.isLoading = false;
    }
  }

  async #read(cluster: Cluster): Promise<void> {
    const first = cluster.index * clusterSize + 1;
    const end = first + clusterSize - 1;
    const lines: LogLine[] = [];
    // If lines are very long, the response has fewer lines than requested.
    for (let from = first, isMore = true; isMore && from <= end;) {
      const view = await this.#source.view(from, end - from + 1);
      if (from === first) cluster.style = view.style;
      lines.push(...view.lines);
      from += view.lines.length;
      isMore = view.lines.length > 0 && from <= view.total;
    }
    cluster.lines = lines;
  }

  #draw(cluster: Cluster): void {
    const element = make('div', { class: 'log-cluster' });
    let style = styleOf(cluster.style === '' ? '0' : cluster.style);
    const first = cluster.index * clusterSize + 1;
    const { total } = this.#rows;
    for (let number = first; number < first + clusterSize && number <= total + 1; number += 1) {
      for (const step of this.#rows.headingsAt(number)) element.append(this.#steps.heading(step));
      const line = cluster.lines?.[number - first];
      if (!line) continue;
      const options = {
        isSelected: this.#isSelected(number),
        isFolded: this.#rows.isFolded(number),
        began: this.#steps.beganAt(number),
      };
      const made = lineElement(line, style, options);
      style = made.after;
      if (number <= total && !this.#rows.isHidden(number)) element.append(made.element);
    }
    if (cluster.element) cluster.element.replaceWith(element);
    else this.#space.insertBefore(element, this.#elementBehind(cluster.index));
    cluster.element = element;
    void this.#mark(cluster);
    if (Array.from(this.#wanted).every((index) => this.#clusters.get(index)?.element)) this.onLoaded();
  }

  /** Clusters keep their order in the page too, for screen readers and for copying. */
  #elementBehind(index: number): HTMLElement | null {
    let [nearest, found]: [number, HTMLElement | null] = [Infinity, null];
    for (const other of this.#clusters.values()) {
      if (other.element && other.index > index && other.index < nearest)
        [nearest, found] = [other.index, other.element];
    }
    return found;
  }

  async #mark(cluster: Cluster): Promise<void> {
    const { element, lines = [] } = cluster;
    const highlight = highlightOf();
    for (const range of cluster.ranges) highlight?.delete(range);
    cluster.ranges = [];
    const [first, last] = [lines[0]?.number, lines.at(-1)?.number];
    if (this.#query === '' || !element || first === undefined || last === undefined) return;
    const q = this.#query;
    const matches = await this.#matchesIn(q, first, last);
    if (cluster.element !== element || this.#query !== q) return;
    for (const { number, ranges } of matches) {
      const line = element.querySelector(`[data-line="${number}"]`);
      if (!line) continue;
      line.classList.add('log-match');
      // A line with carriage returns differs on screen from the searched text.
      if (!lines.find((one) => one.number === number)?.text.includes('\r'))
        cluster.ranges.push(...rangesIn(line, ranges));
    }
    for (const range of cluster.ranges) highlight?.add(range);
  }

  /** A busy server returns only some of the matches, and the next position. */
  async #matchesIn(q: string, first: number, last: number): Promise<Matches['matches']> {
    const all: Matches['matches'] = [];
    for (let from: number | null = first; from !== null && from <= last;) {
      const wanted = { q, from, to: last, limit: clusterSize };
      const found: Matches = await this.#source.matches(wanted).catch((): Matches => nothing);
      all.push(...found.matches);
      from = found.next;
    }
    return all;
  }

  #isSelected(line: number): boolean {
    return this.selection !== undefined && line >= this.selection.first && line <= this.selection.last;
  }

  select(selection: Selection | undefined): void {
    this.selection = selection;
    for (const element of this.#space.querySelectorAll<HTMLElement>('.log-line')) {
      showSelected(element, this.#isSelected(Number(element.dataset['line'])));
    }
  }

  #hide(cluster: Cluster): void {
    const highlight = highlightOf();
    for (const range of cluster.ranges) highlight?.delete(range);
    cluster.ranges = [];
    cluster.element?.remove();
    cluster.element = undefined;
  }

  #forget(): void {
    for (const index of this.#clusters.keys()) {
      if (this.#clusters.size <= mostKept + this.#wanted.size) return;
      if (!this.#wanted.has(index)) this.#clusters.delete(index);
    }
  }
}

function clusterOf(line: number): number {
  return Math.floor((line - 1) / clusterSize);
}

/** Highlights mark text without new elements. Browsers without them mark the whole line. */
function highlightOf(): Highlight | undefined {
  if (!('highlights' in CSS)) return undefined;
  const known = CSS.highlights.get('log-match') ?? new Highlight();
  CSS.highlights.set('log-match', known);
  return known;
}
