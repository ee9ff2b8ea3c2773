import type { Watch } from '../db/subscriptions.ts';
import { whereAvailable } from '../db/unavailable.ts';
import type { StreamWriter } from '../../shared/lib/stream-writer.ts';
import type { Wire } from './firehose.ts';
import { endMark, finalState, newEvents, readAgainMs, topicsOf } from './tail.ts';
import type { Followed, ReadPosition, StreamEvent, TailParts } from './tail.ts';

/**
 * Readers that are up to date share one broadcast: one read of the store, and each event encoded once. A late or slow
 * reader is served from the store until it has caught up, then joins. So no reader misses an event, and a slow reader
 * costs no memory. Resolves at the end, or with the position if the record has another log now.
 */
export async function followTogether(
  parts: TailParts & { broadcasts: Broadcasts },
  subject: Followed,
  wire: Wire,
  from: ReadPosition,
  writer: StreamWriter,
): Promise<ReadPosition | undefined> {
  const { subscriptions, broadcasts } = parts;
  const { signal } = writer;
  const name = `${subject.id} ${subject.log ?? ''} ${wire.contentType}`;
  let place = from;
  while (!signal.aborted) {
    const watch = subscriptions.watch(...topicsOf(subject)); // before the read, so that no event is missed
    try {
      const isTold = await whereAvailable(async () => {
        for await (const event of newEvents(parts, subject, place)) {
          writer.write(written(event, wire, place));
          if (writer.isFull) await writer.drained();
          if (signal.aborted) return;
        }
      });
      if (signal.aborted || place.movedTo !== undefined) {
        watch[Symbol.dispose]();
        return place;
      }
      if (!isTold) {
        await watch.changed(readAgainMs, signal);
        watch[Symbol.dispose]();
        continue;
      }
    } catch (error) {
      watch[Symbol.dispose]();
      throw error;
    }
    let broadcast = broadcasts.get(name);
    if (place.over || broadcast) watch[Symbol.dispose]();
    if (place.over) {
      for (const event of ending(place)) writer.write(written(event, wire, place));
      return undefined;
    }
    if (!broadcast) {
      broadcast = new Broadcast({ ...place }, () => broadcasts.delete(name));
      broadcasts.set(name, broadcast);
      broadcast.start(parts, subject, wire, watch);
    }
    await broadcast.settled(place);
    if (!broadcast.isAt(place)) continue;
    const behind = await broadcast.join(writer);
    if (!behind) return undefined;
    place = behind;
    await writer.drained();
    if (place.movedTo !== undefined) return place;
  }
  return undefined;
}

function* ending(place: ReadPosition): Generator<StreamEvent> {
  yield* finalState(place);
  yield { type: 'end' };
}

function written(event: StreamEvent, wire: Wire, place: ReadPosition): Buffer {
  return Buffer.from(wire.encode(event, {}, nameOf(event, place)));
}

/** The id that a reader sends when it reconnects after this event. */
function nameOf(event: StreamEvent, place: ReadPosition): string | undefined {
  if (event.type === 'log') return String(event.next);
  return event.type === 'end' ? endMark(place.at, place) : undefined;
}

export type Broadcasts = Map<string, Broadcast>;

/** Proxies need some bytes every fifteen seconds; the time is checked every `readAgainMs`. */
const quietTime = 15_000 - readAgainMs;

class Broadcast {
  /** Reached by all members; valid only while the broadcast is idle. */
  readonly #place: ReadPosition;
  readonly #dissolved: () => void;
  readonly #members = new Map<StreamWriter, PromiseWithResolvers<ReadPosition | undefined>>();
  readonly #empty = new AbortController();
  #idle = true;
  #next = Promise.withResolvers<void>();

  constructor(place: ReadPosition, dissolved: () => void) {
    this.#place = place;
    this.#dissolved = dissolved;
  }

  start(parts: TailParts, subject: Followed, wire: Wire, watch: Watch): void {
    void this.#run(parts, subject, wire, watch)
      .then(() => this.#leaveAll((member) => member.resolve(undefined)))
      .catch((error: unknown) => this.#leaveAll((member) => member.reject(error)))
      .finally(() => {
        watch[Symbol.dispose]();
        this.#dissolve();
      });
  }

  /** Resolves when positions can be compared: a reader ahead of the broadcast waits for it. */
  async settled({ at, seen = 0n }: ReadPosition): Promise<void> {
    const isAhead = at > this.#place.at || seen > (this.#place.seen ?? 0n);
    if ((!this.#idle || isAhead) && !this.#empty.signal.aborted) await this.#next.promise;
  }

  isAt({ at, seen }: ReadPosition): boolean {
    return this.#idle && !this.#empty.signal.aborted && at === this.#place.at && seen === this.#place.seen;
  }

  /** Resolves at the end of the stream, or with the reader's position if it has fallen behind. */
  async join(writer: StreamWriter): Promise<ReadPosition | undefined> {
    const member = Promise.withResolvers<ReadPosition | undefined>();
    this.#members.set(writer, member);
    const leave = (): void => {
      this.#members.delete(writer);
      member.resolve(undefined);
      if (this.#members.size === 0) this.#dissolve();
    };
    writer.signal.addEventListener('abort', leave, { once: true });
    if (writer.signal.aborted) leave();
    try {
      return await member.promise;
    } finally {
      writer.signal.removeEventListener('abort', leave);
    }
  }

  async #run(parts: TailParts, subject: Followed, wire: Wire, watch: Watch): Promise<void> {
    const { signal } = this.#empty;
    let spokeAt = performance.now();
    const write = (piece: Buffer): void => {
      for (const writer of this.#members.keys()) writer.write(piece);
      spokeAt = performance.now();
    };
    for (;;) {
      this.#becomeIdle();
      await watch.changed(readAgainMs, signal);
      if (signal.aborted) return;
      this.#idle = false;
      const isTold = await whereAvailable(async () => {
        for await (const event of newEvents(parts, subject, this.#place)) {
          write(written(event, wire, this.#place));
          if (event.type === 'log') this.#letSlowOnesGo(); // not between states, which a position does not record
        }
      });
      if (this.#place.movedTo !== undefined) return this.#leaveAll((member) => member.resolve({ ...this.#place }));
      if (isTold && this.#place.over) {
        for (const event of ending(this.#place)) write(written(event, wire, this.#place));
        return;
      }
      if (performance.now() - spokeAt >= quietTime) write(Buffer.from(wire.keepAlive));
    }
  }

  #becomeIdle(): void {
    this.#idle = true;
    this.#next.resolve();
    this.#next = Promise.withResolvers<void>();
  }

  #letSlowOnesGo(): void {
    for (const [writer, member] of this.#members) {
      if (!writer.isFull) continue;
      this.#members.delete(writer);
      member.resolve({ ...this.#place });
    }
  }

  #leaveAll(tell: (member: PromiseWithResolvers<ReadPosition | undefined>) => void): void {
    for (const member of this.#members.values()) tell(member);
    this.#members.clear();
  }

  #dissolve(): void {
    if (this.#empty.signal.aborted) return;
    this.#dissolved();
    this.#empty.abort();
    this.#next.resolve();
  }
}
