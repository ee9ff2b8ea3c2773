/**
 * Work that would give the same to everybody who asks for it now is done once for all of them. Each is answered by work
 * that was begun after it asked: what is under way may have looked before, and whoever has just written something would
 * not find it. So there is at most one under way for each name, and one that waits for it with everybody who came since.
 */
export class SharedWork<T> {
  readonly #underWay = new Map<string, { current: Promise<T>; next?: Promise<T> }>();

  /** What `work` gives depends on nothing but its name and the moment. */
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
