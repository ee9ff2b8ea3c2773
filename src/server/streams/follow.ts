import { whereAvailable } from '../db/unavailable.ts';
import type { StreamWriter } from '../../shared/lib/stream-writer.ts';
import type { Wire } from './firehose.ts';
import { endMark, finalState, newEvents, readAgainMs, topicsOf } from './tail.ts';
import type { Followed, ReadPosition, StreamEvent, TailParts } from './tail.ts';

/** Proxies need some bytes every fifteen seconds. The time is checked every `readAgainMs`. */
const quietTime = 15_000 - readAgainMs;

/**
 * Sends a record's events from a position to its end, at the reader's own pace. Each turn reads the new events from the
 * store, so a slow reader misses nothing and costs no memory.
 *
 * Resolves at the end, or with the position if the record has another log now.
 */
export async function follow(
  parts: TailParts,
  subject: Followed,
  wire: Wire,
  place: ReadPosition,
  writer: StreamWriter,
): Promise<ReadPosition | undefined> {
  const { signal } = writer;
  let spokeAt = performance.now();
  const write = (event: StreamEvent): void => {
    writer.write(Buffer.from(wire.encode(event, {}, nameOf(event, place))));
    spokeAt = performance.now();
  };
  using watch = parts.subscriptions.watch(...topicsOf(subject)); // before the first read, so that no event is missed
  while (!signal.aborted) {
    const isTold = await whereAvailable(async () => {
      for await (const event of newEvents(parts, subject, place)) {
        write(event);
        if (writer.isFull) await writer.drained();
        if (signal.aborted) return;
      }
    });
    if (signal.aborted) return undefined;
    if (place.movedTo !== undefined) return place;
    if (isTold && place.over) {
      for (const event of finalState(place)) write(event);
      write({ type: 'end' });
      return undefined;
    }
    if (performance.now() - spokeAt >= quietTime) {
      writer.write(Buffer.from(wire.keepAlive));
      spokeAt = performance.now();
    }
    await watch.changed(readAgainMs, signal);
  }
  return undefined;
}

/** The identifier that a reader sends when it reconnects after this event. */
function nameOf(event: StreamEvent, place: ReadPosition): string | undefined {
  if (event.type === 'log') return String(event.next);
  return event.type === 'end' ? endMark(place.at, place) : undefined;
}
