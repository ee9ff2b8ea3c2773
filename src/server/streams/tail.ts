import type { Blobs } from '../db/blobs.ts';
import type { Subscriptions } from '../db/subscriptions.ts';
import type { Queries } from '../db/open.ts';
import { logTopic, readLog } from './logs.ts';

/**
 * Follows a record live: its states and its log, from any offset, to the end. A reader gets the stored events and then
 * new ones. It is always served from the store, so it misses nothing, however late or slow it is.
 */
export type StreamEvent =
  | { type: 'state'; state: string }
  | { type: 'log'; offset: number; next: number; text: string }
  | { type: 'end' };

/** A record with states and a log. Once its state is final, its log is complete. */
export interface Followed {
  id: bigint;
  /** Its log, where that is another record's. */
  log?: bigint;
  /** The record's current data, in one query; undefined when the record was deleted. */
  read(after: bigint | undefined): Promise<Snapshot | undefined>;
  isFinal(state: string): boolean;
}

/** A record at one moment. */
export interface Snapshot {
  /** The states since the one that the reader saw last; at first the current one alone. */
  states: SeenState[];
  /** The size of its log. */
  size: bigint;
  /** Its log, where that is another record's and may become yet another's. */
  log?: bigint;
}

export interface SeenState {
  state: string;
  sequence: bigint;
}

export interface TailParts {
  db: Queries;
  subscriptions: Subscriptions;
  blobs: Blobs;
}

/** The longest piece of log in one event. */
const largestPiece = 64 * 1024;
/** How long to rely on announcements before looking again. */
export const readAgainMs = 2000;

/** A reader's position in one record. */
export interface ReadPosition {
  /** The first byte of the log that was not sent yet. */
  at: bigint;
  /** The last state that was read. */
  seen?: bigint | undefined;
  /** The last state that was sent. A reader gets the current state first, whatever it is. */
  sent?: string;
  /** Set when only the rest of the log is missing. A new final state is sent after that. */
  over?: { state: string | undefined } | undefined;
  /** Set when the record has another log now, and all of the one before was sent. */
  movedTo?: bigint;
}

type Reading = Pick<TailParts, 'db' | 'blobs'>;

/** The topics that are announced when a record changes. */
export function topicsOf({ id, log = id }: Pick<Followed, 'id' | 'log'>): string[] {
  return [logTopic(log), `subject:${id}`];
}

/** The events since the reader's position, except the final state. Advances the position. */
export async function* newEvents(
  parts: Reading,
  subject: Followed,
  position: ReadPosition,
): AsyncGenerator<StreamEvent> {
  yield* newEventsIn(parts, subject, position, await subject.read(position.seen));
}

/** The same, with data that was already read. */
export async function* newEventsIn(
  parts: Reading,
  subject: Pick<Followed, 'id' | 'log' | 'isFinal'>,
  position: ReadPosition,
  snapshot: Snapshot | undefined,
): AsyncGenerator<StreamEvent> {
  const { states, size = 0n, log } = snapshot ?? {};
  if (log !== undefined && log !== (subject.log ?? subject.id)) {
    // States are told beside the log that goes with them.
    yield* piecesFrom(parts, subject, position, size, true);
    position.movedTo = log;
    return;
  }
  const last = states?.at(-1);
  const isOver = states === undefined || (last ? subject.isFinal(last.state) : position.over !== undefined);
  const isFirst = position.seen === undefined;
  position.seen = last?.sequence ?? position.seen;
  // Before the log, because a reader that cannot read it to the end continues from this position.
  position.over = isOver ? { state: last?.state ?? position.over?.state } : undefined;
  for (const { state } of states ?? []) {
    if (subject.isFinal(state) && !isFirst) continue;
    position.sent = state;
    yield { type: 'state', state };
  }
  yield* piecesFrom(parts, subject, position, size, isOver);
}

async function* piecesFrom(
  parts: Reading,
  subject: Pick<Followed, 'id' | 'log'>,
  position: ReadPosition,
  size: bigint,
  isComplete: boolean,
): AsyncGenerator<StreamEvent> {
  for await (const event of pieces(parts, subject, [position.at, size], isComplete)) {
    position.at = BigInt(event.next);
    yield event;
  }
}

/**
 * The identifier that a reader sends after it got the end: the offset of the log, and the last state of the record. A
 * reader that got the whole log but not the end does not have it, and gets the rest.
 */
export function endMark(at: bigint | string, { seen = 0n }: ReadPosition): string {
  return `${at};${seen}`;
}

/** Whether a record is unchanged since a reader got its end. */
export async function isStillOver(subject: Followed, seen: bigint): Promise<boolean> {
  const last = (await subject.read(undefined))?.states.at(-1);
  return last !== undefined && last.sequence === seen && subject.isFinal(last.state);
}

/** The final state, unless it was sent already. */
export function* finalState(position: ReadPosition): Generator<StreamEvent> {
  const state = position.over?.state;
  if (state === undefined || state === position.sent) return;
  position.sent = state;
  yield { type: 'state', state };
}

/** The stored bytes of a log from an offset on, up to the given size, cut between characters. */
async function* pieces(
  { db, blobs }: Reading,
  { id, log = id }: Pick<Followed, 'id' | 'log'>,
  [from, size]: [bigint, bigint],
  complete: boolean,
): AsyncGenerator<Extract<StreamEvent, { type: 'log' }>> {
  let at = from;
  while (at < size) {
    const before = at;
    for await (const bytes of gathered(readLog(db, blobs, log, at, size))) {
      const isLast = at + BigInt(bytes.length) >= size;
      const whole = isLast && complete ? bytes : bytes.subarray(0, wholeCharacters(bytes));
      if (whole.length === 0) break;
      const [offset, next] = [Number(at), Number(at) + whole.length];
      at = BigInt(next);
      yield { type: 'log', offset, next, text: whole.toString('utf8') };
      if (whole.length < bytes.length && !isLast) break; // the rest of a character is read again with the next bytes
    }
    if (at === before) return;
  }
}

/** Joins small pieces and splits large ones. */
async function* gathered(pieces: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let gathering: Buffer[] = [];
  let length = 0;
  for await (const piece of pieces) {
    gathering.push(piece);
    length += piece.length;
    if (length < largestPiece) continue;
    const all = gathering.length === 1 ? piece : Buffer.concat(gathering);
    const end = all.length - (all.length % largestPiece);
    for (let start = 0; start < end; start += largestPiece) yield all.subarray(start, start + largestPiece);
    gathering = end < all.length ? [all.subarray(end)] : [];
    length = all.length - end;
  }
  if (length > 0) yield Buffer.concat(gathering);
}

/** How many bytes from the start end with a whole character: the rest of the last one may still arrive. */
export function wholeCharacters(bytes: Buffer): number {
  const tail = bytes.subarray(-4);
  for (let back = 1; back <= tail.length; back += 1) {
    const byte = tail[tail.length - back] ?? 0;
    if ((byte & 0b1100_0000) === 0b1000_0000) continue; // in the middle of a character
    const length = byte >= 0b1111_0000 ? 4 : byte >= 0b1110_0000 ? 3 : byte >= 0b1100_0000 ? 2 : 1;
    return length > back ? bytes.length - back : bytes.length;
  }
  return bytes.length;
}
