/**
 * Callers that ask for the same work at the same time share it. A caller gets the result of work that began after it
 * asked: work under way may have read the store before this caller's last write. So for each name one piece of work
 * runs, and at most one waits, for all callers that came since.
 */
export class SharedWork<T> {
  readonly #underWay = new Map<string, { current: Promise<T>; next?: Promise<T> }>();

  /** The result of `work` must depend only on its name and the moment. */
  do(name: string, work: () => Promise<T>): Promise<T> {
    const underWay = this.#underWay.get(name);
    if (!underWay) return this.#begin(name, work);
    const again = (): Promise<T> => this.#begin(name, work);
    underWay.next ??= underWay.current.then(again, again);
    return underWay.next;
  }

  #begin(name: string, work: () => Promise<T>): Promise<T> {
    const current = work().finally(() => {
      if (this.#underWay.get(name)?.next === undefined) this.#underWay.delete(name);
    });
    this.#underWay.set(name, { current });
    return current;
  }
}
