/**
 * Which other servers listen on the same database. Each says so when it begins to listen and every few seconds from then
 * on, and a new one is answered at once. Who has nobody to tell anything need not speak: most servers are alone.
 *
 * Somebody may be missed for a moment, and then misses what is said in it. That costs no more than a lost announcement:
 * whoever listens also looks now and then.
 */
export const sayEveryMs = 10_000;
const goneAfterMs = 3 * sayEveryMs;
/** Whoever is there answers within this. */
const answeredWithinMs = 1000;

export class Neighbours {
  readonly #heardAt = new Map<string, number>();
  #listensSince = Infinity;

  /** Notes that this server listens from now on. */
  listens(now = performance.now()): void {
    this.#listensSince = now;
  }

  /** Notes that it does not any more: nobody can be heard. */
  isDeaf(): void {
    this.#listensSince = Infinity;
  }

  /** Notes who spoke; answers whether that one is new. */
  hear(speaker: string, now = performance.now()): boolean {
    const isNew = !this.#heardAt.has(speaker);
    this.#heardAt.set(speaker, now);
    return isNew;
  }

  isAlone(now = performance.now()): boolean {
    for (const [speaker, at] of this.#heardAt) if (now - at > goneAfterMs) this.#heardAt.delete(speaker);
    return this.#heardAt.size === 0 && now - this.#listensSince > answeredWithinMs;
  }
}
