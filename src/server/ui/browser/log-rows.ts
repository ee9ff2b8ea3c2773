/**
 * The position of each line. Rows are the lines that are not hidden in closed groups. Browsers limit an element's
 * height to about 16 million pixels, so the element of a long log is lower than its rows would be. When the user
 * scrolls a little, the lines move by the same distance. When the user jumps, the position on the scroll bar decides.
 */

interface Fold {
  /** The line that stays visible, and the last hidden one. */
  line: number;
  last: number;
}

const highest = 8_000_000;

export class Rows {
  total = 0;
  /** In pixels. */
  rowHeight = 24;
  viewHeight = 400;
  #folds: Fold[] = [];
  /** How far the first line would be above the top of the element. */
  #base = 0;

  get count(): number {
    let count = this.total;
    for (const { line, last } of this.#folds) count -= Math.min(last, this.total) - line;
    return count;
  }

  /** The height of the element. */
  get height(): number {
    return Math.min(this.#whole, highest);
  }

  get #whole(): number {
    return this.count * this.rowHeight;
  }

  isFolded(line: number): boolean {
    return this.#folds.some((fold) => fold.line === line);
  }

  isHidden(line: number): boolean {
    return this.#folds.some((fold) => fold.line < line && line <= fold.last);
  }

  fold(line: number, last: number): void {
    const others = this.#folds.filter((fold) => fold.last < line || fold.line > last);
    this.#folds = [...others, { line, last }].toSorted((a, b) => a.line - b.line);
  }

  unfold(line: number): void {
    this.#folds = this.#folds.filter((fold) => fold.line !== line);
  }

  /** Opens the group that hides a line. */
  reveal(line: number): void {
    this.#folds = this.#folds.filter((fold) => !(fold.line < line && line <= fold.last));
  }

  /** From 0; for a hidden line, the row of the visible line above it. */
  rowOf(line: number): number {
    let row = line - 1;
    for (const fold of this.#folds) if (fold.line < line) row -= Math.min(line, fold.last) - fold.line;
    return row;
  }

  lineAt(row: number): number {
    let line = row + 1;
    for (const fold of this.#folds) if (fold.line < line) line += fold.last - fold.line;
    return Math.min(Math.max(line, 1), Math.max(this.total, 1));
  }

  /** The position within the element. */
  topOf(line: number): number {
    return this.rowOf(line) * this.rowHeight - this.#base;
  }

  /** The first visible row, with the hidden part of it as a fraction. */
  rowAt(scrollTop: number): number {
    return (scrollTop + this.#base) / this.rowHeight;
  }

  /** The scroll position at which a row is the first. */
  scrollTo(row: number): number {
    const wanted = Math.min(Math.max(0, row * this.rowHeight), Math.max(0, this.#whole - this.viewHeight));
    const scrollTop = this.#whole <= highest ? wanted : this.#share(wanted, this.#whole, highest);
    this.#base = wanted - scrollTop;
    return scrollTop;
  }

  /** The user has scrolled. Returns the position to scroll to, where it is another. */
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

  /** Converts a position between two heights. */
  #share(position: number, from: number, to: number): number {
    return (position / Math.max(1, from - this.viewHeight)) * (to - this.viewHeight);
  }
}
