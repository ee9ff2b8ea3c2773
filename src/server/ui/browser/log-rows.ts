/**
 * Rows are the headings of steps, and the lines outside closed steps and groups. Browsers limit an element to about 16
 * million pixels, so a long log's element is lower than its rows. A small scroll moves the lines by the same distance.
 * After a jump, the scroll bar's position counts.
 */

/** Lines that are hidden, both included. */
interface Hidden {
  from: number;
  to: number;
}

const highest = 8_000_000;

export class Rows {
  rowHeight = 24;
  viewHeight = 400;
  #total = 0;
  /** For each heading, the line before which it stands. A heading behind the last line stands at the end. */
  #headings: number[] = [];
  /** By the line of a group's name. */
  readonly #groups = new Map<number, number>();
  /** By the number of the heading. */
  readonly #steps = new Set<number>();
  /** Ordered, without overlaps. `before` counts the hidden lines before each. */
  #hidden: (Hidden & { before: number })[] = [];
  /** The distance of the first line above the top of the element, as if all lines were drawn. */
  #base = 0;

  get total(): number {
    return this.#total;
  }

  set total(total: number) {
    this.#total = total;
    this.#arrange();
  }

  set headings(lines: readonly number[]) {
    this.#headings = [...lines];
    this.#arrange();
  }

  get count(): number {
    return this.rowsBefore(this.#total + 1) + this.headingsAt(this.#total + 1).length;
  }

  get height(): number {
    return Math.min(this.#whole, highest);
  }

  get #whole(): number {
    return this.count * this.rowHeight;
  }

  /** The headings before a line, by number. Behind the last line there may be some too. */
  headingsAt(line: number): number[] {
    return this.#headings.flatMap((_, heading) => (this.#placeOf(heading) === line ? [heading] : []));
  }

  #placeOf(heading: number): number {
    return Math.min(this.#headings[heading] ?? Infinity, this.#total + 1);
  }

  /** The number of the step with this line. Undefined for lines before the first step. */
  stepOf(line: number): number | undefined {
    const step = this.#headings.findLastIndex((at) => at <= line);
    return step < 0 ? undefined : step;
  }

  /** The lines of a step. The last step includes what follows it. */
  linesOf(step: number): Hidden {
    const from = this.#placeOf(step);
    return { from, to: step + 1 < this.#headings.length ? this.#placeOf(step + 1) - 1 : this.#total };
  }

  isFolded(line: number): boolean {
    return this.#groups.has(line);
  }

  isClosed(step: number): boolean {
    return this.#steps.has(step);
  }

  isHidden(line: number): boolean {
    const before = this.#lastHidden(line);
    return before !== undefined && line <= before.to;
  }

  fold(line: number, last: number): void {
    this.foldAll([line, last]);
  }

  /** First and last lines of groups, one after the other. */
  foldAll(groups: readonly number[]): void {
    for (let at = 0; at + 1 < groups.length; at += 2) this.#groups.set(groups[at] ?? 0, groups[at + 1] ?? 0);
    this.#arrange();
  }

  unfold(line: number): void {
    this.#groups.delete(line);
    this.#arrange();
  }

  close(step: number): void {
    this.#steps.add(step);
    this.#arrange();
  }

  open(step: number): void {
    this.#steps.delete(step);
    this.#arrange();
  }

  reveal(line: number): void {
    const step = this.stepOf(line);
    if (step !== undefined) this.#steps.delete(step);
    for (const [head, last] of this.#groups) if (head < line && line <= last) this.#groups.delete(head);
    this.#arrange();
  }

  #arrange(): void {
    const ranges: Hidden[] = Array.from(this.#groups, ([head, last]) => ({ from: head + 1, to: last }));
    for (const step of this.#steps) ranges.push(this.linesOf(step));
    this.#hidden = [];
    let before = 0;
    for (const { from, to } of ranges.toSorted((a, b) => a.from - b.from)) {
      const last = this.#hidden.at(-1);
      const [first, end] = [Math.max(from, (last?.to ?? 0) + 1), Math.min(to, this.#total)];
      if (end < first) continue;
      this.#hidden.push({ from: first, to: end, before });
      before += end - first + 1;
    }
  }

  /** The last hidden lines that begin at or before this line. */
  #lastHidden(line: number): (Hidden & { before: number }) | undefined {
    let [low, high] = [0, this.#hidden.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#hidden[middle]?.from ?? Infinity) <= line) low = middle + 1;
      else high = middle;
    }
    return this.#hidden[low - 1];
  }

  #linesBefore(line: number): number {
    const hidden = this.#lastHidden(line - 1);
    return hidden ? line - 1 - hidden.before - (Math.min(line - 1, hidden.to) - hidden.from + 1) : line - 1;
  }

  /** How many lines from one line to another are visible. */
  visibleIn(from: number, to: number): number {
    const end = Math.min(to, this.#total) + 1;
    return end <= from ? 0 : this.#linesBefore(end) - this.#linesBefore(from);
  }

  /** The rows above a line and its headings. */
  rowsBefore(line: number): number {
    let headings = 0;
    while (headings < this.#headings.length && this.#placeOf(headings) < line) headings += 1;
    return this.#linesBefore(line) + headings;
  }

  /** The row of a line, from 0. A hidden line has the row of the next visible one. */
  rowOf(line: number): number {
    return this.rowsBefore(line) + this.headingsAt(line).length;
  }

  rowOfHeading(heading: number): number {
    const line = this.#placeOf(heading);
    return this.rowsBefore(line) + this.headingsAt(line).indexOf(heading);
  }

  /** The line in a row. For a heading, the line behind it, which may be hidden. */
  lineAt(row: number): number {
    let [low, high] = [1, this.#total + 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.rowsBefore(middle) <= row) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** The top of a line with the headings before it. */
  topOf(line: number): number {
    return this.rowsBefore(line) * this.rowHeight - this.#base;
  }

  /** The first visible row. The fraction is its hidden part. */
  rowAt(scrollTop: number): number {
    return (scrollTop + this.#base) / this.rowHeight;
  }

  scrollTo(row: number): number {
    const wanted = Math.min(Math.max(0, row * this.rowHeight), Math.max(0, this.#whole - this.viewHeight));
    const scrollTop = this.#whole <= highest ? wanted : this.#share(wanted, this.#whole, highest);
    this.#base = wanted - scrollTop;
    return scrollTop;
  }

  /** Returns the scroll position to set, if it differs. */
  scrolled(scrollTop: number, before: number): number | undefined {
    if (this.#whole <= highest) {
      this.#base = 0;
      return undefined;
    }
    const isJump = Math.abs(scrollTop - before) > 4 * this.viewHeight;
    const end = highest - this.viewHeight;
    const isAtEnd = scrollTop <= 0 || scrollTop >= end - 1;
    if (isJump) {
      this.#base = this.#share(scrollTop, highest, this.#whole) - scrollTop;
      return undefined;
    }
    if (!isAtEnd && scrollTop > this.viewHeight && scrollTop < end - this.viewHeight) return undefined;
    const position = Math.round(this.scrollTo(this.rowAt(scrollTop)));
    return Math.abs(position - scrollTop) > 1 ? position : undefined;
  }

  #share(position: number, from: number, to: number): number {
    return (position / Math.max(1, from - this.viewHeight)) * (to - this.viewHeight);
  }
}
