import { setTimeout as pause } from 'node:timers/promises';
import { StringDecoder } from 'node:string_decoder';
import type { Event } from '../records/log.ts';
import { Failure } from './failure.ts';

/** An event of a firehose. */
export interface StreamedEvent extends Event {
  /** The bytes as in the log, if they were requested: in the text, bytes that are not UTF-8 are U+FFFD. */
  bytes?: Buffer;
}

/** Completes an event before it counts as delivered. */
export type Complete = (event: StreamedEvent) => Promise<StreamedEvent>;

type Opened = (last: string | undefined) => Promise<AsyncIterable<Buffer>>;

const firstPauseMs = 500;
const longestPauseMs = 15_000;
/** How often in a row a stream may fail to open before that is an error. */
const mostFailures = 8;

/**
 * Reads a stream of JSON lines to its end. It waits for a server that restarts, or a network that is away, and
 * continues where it was: no event is lost, and none comes twice.
 */
export async function* readEvents(
  open: Opened,
  complete: Complete = async (event) => event,
): AsyncGenerator<StreamedEvent> {
  let last: string | undefined;
  let isOpen = false;
  for (let failures = 0; ;) {
    try {
      const pieces = await open(last);
      isOpen = true;
      for await (const line of linesOf(pieces)) {
        if (line === '') continue; // keeps proxies from closing a quiet stream
        const event = await complete(JSON.parse(line) as StreamedEvent);
        failures = 0;
        last = event.id ?? last;
        yield event;
        if (event.event === 'end') return;
      }
    } catch (error) {
      const isPassing = error instanceof Failure && error.kind === 'unreachable';
      if (!isPassing || !isOpen || failures >= mostFailures) throw error;
    }
    await pause(Math.min(firstPauseMs * 2 ** failures, longestPauseMs));
    failures += 1;
    if (failures > mostFailures)
      throw new Failure('unreachable', 'The server ends the stream again and again. Try later.');
  }
}

async function* linesOf(pieces: AsyncIterable<Buffer>): AsyncGenerator<string> {
  const decoder = new StringDecoder('utf8');
  let rest = '';
  for await (const piece of pieces) {
    const lines = (rest + decoder.write(piece)).split('\n');
    rest = lines.pop() ?? '';
    yield* lines;
  }
}
