import { setTimeout as pause } from 'node:timers/promises';
import { StringDecoder } from 'node:string_decoder';
import { readUntrustedObject } from '../../shared/lib/untrusted-json.ts';
import type { Event } from '../../shared/records/log.ts';
import { Failure } from './failure.ts';
import { backOff } from '../../shared/lib/back-off.ts';

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
        const event = await complete(readEvent(line));
        failures = 0;
        last = event.id ?? last;
        yield event;
        if (event.event === 'end') return;
      }
    } catch (error) {
      const isPassing = error instanceof Failure && error.kind === 'unreachable';
      if (!isPassing || !isOpen || failures >= mostFailures) throw error;
    }
    await pause(backOff(failures + 1, firstPauseMs, longestPauseMs));
    failures += 1;
    if (failures > mostFailures)
      throw new Failure('unreachable', 'The server ends the stream again and again. Try later.');
  }
}

/** More than the text of an event may be, which is cut before. */
const longestLine = 16 * 1024 * 1024;

/** It is not tried again: such a server would say the same. */
const nonsense = (): Failure =>
  new Failure('invalid', 'What answers there sends no events of Headrace. Check the address of the server.');

function readEvent(line: string): StreamedEvent {
  try {
    return readUntrustedObject(line) as unknown as StreamedEvent;
  } catch {
    throw nonsense();
  }
}

/** The bytes that a piece of a log has; a server that sends more is not believed. */
export async function exactly(size: number, pieces: AsyncIterable<Buffer>): Promise<Buffer> {
  const all: Buffer[] = [];
  let count = 0;
  for await (const piece of pieces) {
    count += piece.length;
    if (!(count <= size) || count > longestLine) throw nonsense();
    all.push(piece);
  }
  return Buffer.concat(all);
}

async function* linesOf(pieces: AsyncIterable<Buffer>): AsyncGenerator<string> {
  const decoder = new StringDecoder('utf8');
  let rest = '';
  for await (const piece of pieces) {
    const lines = (rest + decoder.write(piece)).split('\n');
    rest = lines.pop() ?? '';
    if (rest.length > longestLine) throw nonsense();
    yield* lines;
  }
}
