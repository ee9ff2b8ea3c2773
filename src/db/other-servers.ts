/**
 * Which other servers listen on the same database. Each server announces itself when it begins to listen and every few
 * seconds after that; the others answer a new server at once. A server that is alone, as most are, sends no
 * announcements.
 *
 * A server may be overlooked for a moment and then misses announcements. That is no worse than a lost announcement:
 * listeners also look in the store now and then.
 */
export const announceEveryMs = 10_000;
const goneAfterMs = 3 * announceEveryMs;
/** Other servers answer within this time. */
const answeredWithinMs = 1000;

export class OtherServers {
  readonly #heardAt = new Map<string, number>();
  #listensSince = Infinity;

  /** This server listens from now on. */
  listens(now = performance.now()): void {
    this.#listensSince = now;
  }

  /** This server does not listen any more, and hears no other server. */
  isDeaf(): void {
    this.#listensSince = Infinity;
  }

  /** Notes a message of a server; returns whether that server is new. */
  noteMessage(server: string, now = performance.now()): boolean {
    const isNew = !this.#heardAt.has(server);
    this.#heardAt.set(server, now);
    return isNew;
  }

  isAlone(now = performance.now()): boolean {
    for (const [server, at] of this.#heardAt) if (now - at > goneAfterMs) this.#heardAt.delete(server);
    return this.#heardAt.size === 0 && now - this.#listensSince > answeredWithinMs;
  }
}
