/**
 * Rows are the lines outside closed groups. Browsers limit an element to about 16 million pixels, so a long log's
 * element is lower than its rows. A small scroll moves the lines by the same distance. After a jump, the scroll bar's
 * position counts.
 */

interface Fold {
  line: number;
  last: number;
}

const highest = 8_000_000;

export class Rows {
  total = 0;
  rowHeight = 24;
  viewHeight = 400;
  #folds: Fold[] = [];
  /** The distance of the first line above the top of the element, as if all lines were drawn. */
  #base = 0;

  get count(): number {
    let count = this.total;
    for (const { line, last } of this.#folds) count -= Math.min(last, this.total) - line;
    return count;
  }

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

  reveal(line: number): void {
    this.#folds = this.#folds.filter((fold) => !(fold.line < line && line <= fold.last));
  }

  /** The row of a line, from 0. A hidden line has the row of the visible line above it. */
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

  topOf(line: number): number {
    return this.rowOf(line) * this.rowHeight - this.#base;
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
