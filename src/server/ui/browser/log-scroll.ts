/** The log scrolls in its own element, or on a narrow screen with the page. */
export class Scroll {
  readonly #view: HTMLElement;
  readonly #space: HTMLElement;
  readonly #narrow = matchMedia('(max-width: 40rem)');

  constructor(view: HTMLElement, space: HTMLElement) {
    this.#view = view;
    this.#space = space;
  }

  get isOfPage(): boolean {
    return this.#narrow.matches;
  }

  /** The hidden part of the lines above the first visible one. */
  get top(): number {
    return this.isOfPage ? Math.max(0, -this.#space.getBoundingClientRect().top) : this.#view.scrollTop;
  }

  set top(top: number) {
    if (!this.isOfPage) this.#view.scrollTop = top;
    else if (this.#space.getClientRects().length > 0)
      window.scrollTo(0, window.scrollY + this.#space.getBoundingClientRect().top + top);
  }

  /** Where the first line is below the top of what scrolls. */
  get lead(): number {
    return this.isOfPage ? Math.max(0, this.#space.getBoundingClientRect().top) : 0;
  }

  get height(): number {
    return this.isOfPage ? window.innerHeight : this.#view.clientHeight;
  }

  get isAtEnd(): boolean {
    const { scrollHeight, clientHeight, scrollTop } = this.isOfPage ? document.documentElement : this.#view;
    return scrollHeight - clientHeight - scrollTop < 1;
  }

  listen(scrolled: () => void, resized: () => void): void {
    for (const of of [this.#view, document]) of.addEventListener('scroll', scrolled, { passive: true });
    new ResizeObserver(resized).observe(this.#view);
    window.addEventListener('resize', resized);
  }
}
