import { orAborted } from '../lib/or-aborted.ts';
import { placeOf, type PlaceKind } from '../lib/places.ts';
import type { Order } from '../protocol/index.ts';

type Call = (place: PlaceKind | undefined) => Promise<Order | undefined>;
/** An executor that waits until it is to ask itself, or gets an order that another one asked for. */
type Waiting = PromiseWithResolvers<Order | undefined>;

/**
 * Of the executors that have nothing to do, one asks for work: each request that is held costs the server a connection.
 * It asks for builds and for fetches at once where an executor of the other sort waits, which gets what is for it. While
 * work comes, all for whom there may be more ask, so that a runner that gets much at once is busy at once.
 */
export class Askers {
  /** How many requests ask for an order for such a place. */
  readonly #asking = { builds: 0, fetches: 0 };
  readonly #waiting = { builds: new Set<Waiting>(), fetches: new Set<Waiting>() };
  #isOver = false;

  /**
   * Makes the call for an executor with such a place; the call is given no place when it asks for both. While another one
   * asks for the same, waits instead until work comes. Returns undefined when nothing came for this executor.
   */
  async ask(place: PlaceKind, call: Call, signal: AbortSignal): Promise<Order | undefined> {
    if (this.#asking[place] > 0 && !this.#isOver) {
      const given = await this.#wait(place, signal);
      if (given || this.#isOver) return given;
    }
    const other = place === 'builds' ? 'fetches' : 'builds';
    let beside: Waiting | undefined;
    let order: Order | undefined;
    try {
      do {
        beside ??= this.#take(other);
        order = await this.#count(beside ? [place, other] : [place], call);
        // Nobody is left waiting for whom nobody asks.
      } while (!order && !this.#isOver && !(this.#asking[place] > 0 && (!beside || this.#asking[other] > 0)));
    } catch (error) {
      beside?.resolve(undefined);
      this.#callAll(); // each finds out for itself that there is nothing to wait for
      throw error;
    }
    const got = order && placeOf(order.work.kind);
    const isForOther = beside !== undefined && got === other;
    if (order || this.#isOver) beside?.resolve(isForOther ? order : undefined);
    else if (beside) this.#waiting[other].add(beside);
    if (got === 'fetches')
      this.#callAll(); // what is fetched is built next
    else if (got) this.#call('builds');
    return isForOther ? undefined : order;
  }

  /** From now on nobody waits for another. */
  end(): void {
    this.#isOver = true;
    this.#callAll();
  }

  async #count(places: readonly PlaceKind[], call: Call): Promise<Order | undefined> {
    for (const place of places) this.#asking[place] += 1;
    try {
      return await call(places.length > 1 ? undefined : places[0]);
    } finally {
      for (const place of places) this.#asking[place] -= 1;
    }
  }

  async #wait(place: PlaceKind, signal: AbortSignal): Promise<Order | undefined> {
    const waiting = Promise.withResolvers<Order | undefined>();
    this.#waiting[place].add(waiting);
    return orAborted(waiting.promise, signal);
  }

  #take(place: PlaceKind): Waiting | undefined {
    const [first] = this.#waiting[place];
    if (first) this.#waiting[place].delete(first);
    return first;
  }

  /** Those who wait for such a place ask themselves. */
  #call(place: PlaceKind): void {
    for (const waiting of this.#waiting[place]) waiting.resolve(undefined);
    this.#waiting[place].clear();
  }

  #callAll(): void {
    this.#call('builds');
    this.#call('fetches');
  }
}
