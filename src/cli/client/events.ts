import { setTimeout as pause } from 'node:timers/promises';
import { StringDecoder } from 'node:string_decoder';
import { readUntrustedObject } from '../../shared/lib/untrusted-json.ts';
import type { Event } from '../../shared/records/log.ts';
import { Failure } from './failure.ts';
import { backOff } from '../../shared/lib/back-off.ts';

export interface StreamedEvent extends Event {
  /** The bytes as in the log, if requested. In the text, bytes that are not UTF-8 are U+FFFD. */
  bytes?: Buffer;
}

export type Complete = (event: StreamedEvent) => Promise<StreamedEvent>;

type Opened = (last: string | undefined) => Promise<AsyncIterable<Buffer>>;

const firstPauseMs = 500;
const longestPauseMs = 15_000;
const mostFailures = 8;

/** Waits for a server or network that is unreachable, and resumes: no event is lost or doubled. */
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
      throw new Failure('unreachable', 'The server keeps ending the event stream. Try again later.');
  }
}

/** The server cuts an event's text before that. */
const longestLine = 16 * 1024 * 1024;

/** Not retried: such a server would answer the same. */
const nonsense = (): Failure =>
  new Failure('invalid', 'This address does not send Headrace events. Check the address of the server.');

function readEvent(line: string): StreamedEvent {
  try {
    return readUntrustedObject(line) as unknown as StreamedEvent;
  } catch {
    throw nonsense();
  }
}

/** A server that sends more is not believed. */
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
