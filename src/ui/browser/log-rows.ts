/**
 * Which line is where. Rows are lines without those that are folded away. Browsers cannot make an element higher than some
 * 16 million pixels, so a long log stands in one that is lower than it would be: where the person moves little by little,
 * so do the lines; where they jump, the place on the scroll bar counts.
 */

interface Fold {
  /** The line that stays, and the last one that does not. */
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
  /** How far above the element's top the first line would be. */
  #base = 0;

  get count(): number {
    let count = this.total;
    for (const { line, last } of this.#folds) count -= Math.min(last, this.total) - line;
    return count;
  }

  /** Of the element. */
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

  /** What hides a line is opened. */
  reveal(line: number): void {
    this.#folds = this.#folds.filter((fold) => !(fold.line < line && line <= fold.last));
  }

  /** From 0 on; that of the line above for one that is folded away. */
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

  /** In the element. */
  topOf(line: number): number {
    return this.rowOf(line) * this.rowHeight - this.#base;
  }

  /** The first row that is seen, with the part of it that is not. */
  rowAt(scrollTop: number): number {
    return (scrollTop + this.#base) / this.rowHeight;
  }

  /** Where to scroll to so that a row is the first. */
  scrollTo(row: number): number {
    const wanted = Math.min(Math.max(0, row * this.rowHeight), Math.max(0, this.#whole - this.viewHeight));
    const scrollTop = this.#whole <= highest ? wanted : this.#share(wanted, this.#whole, highest);
    this.#base = wanted - scrollTop;
    return scrollTop;
  }

  /** The person has scrolled. Answers where the element has to be scrolled to, where that is somewhere else. */
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
    const place = Math.round(this.scrollTo(this.rowAt(scrollTop)));
    return Math.abs(place - scrollTop) > 1 ? place : undefined;
  }

  /** A place in something of one height, as that in something of another. */
  #share(place: number, from: number, to: number): number {
    return (place / Math.max(1, from - this.viewHeight)) * (to - this.viewHeight);
  }
}
