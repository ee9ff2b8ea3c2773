import type { Blobs } from '../db/blobs.ts';
import type { Subscriptions } from '../db/subscriptions.ts';
import type { Queries } from '../db/open.ts';
import { logTopic, readLog } from './logs.ts';

/** Readers are always served from the store, so they miss nothing, however late or slow. */
export type StreamEvent =
  | { type: 'state'; state: string }
  | { type: 'log'; offset: number; next: number; text: string }
  | { type: 'end' };

/** Once the record's state is final, its log is complete. */
export interface Followed {
  id: bigint;
  /** Set if its log belongs to another record. */
  log?: bigint;
  /** Reads in one query. Undefined if the record was deleted. */
  read(after: bigint | undefined): Promise<Snapshot | undefined>;
  isFinal(state: string): boolean;
}

export interface Snapshot {
  /** The states since the last one that the reader saw. At first only the current state. */
  states: SeenState[];
  size: bigint;
  /** Set if its log belongs to another record. Another log may follow. */
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

const largestPiece = 64 * 1024;
export const readAgainMs = 2000;

export interface ReadPosition {
  /** The first byte of the log not sent yet. */
  at: bigint;
  /** The last state that was read. */
  seen?: bigint | undefined;
  /** The last state that was sent. A reader gets the current state first, whatever it is. */
  sent?: string;
  /** Set if only the rest of the log is missing. A new final state is sent after that. */
  over?: { state: string | undefined } | undefined;
  /** Set if the record has another log now, and all of the previous log was sent. */
  movedTo?: bigint;
}

type Reading = Pick<TailParts, 'db' | 'blobs'>;

export function topicsOf({ id, log = id }: Pick<Followed, 'id' | 'log'>): string[] {
  return [logTopic(log), `subject:${id}`];
}

/** New events except the final state. Advances the position. */
export async function* newEvents(
  parts: Reading,
  subject: Followed,
  position: ReadPosition,
): AsyncGenerator<StreamEvent> {
  yield* newEventsIn(parts, subject, position, await subject.read(position.seen));
}

export async function* newEventsIn(
  parts: Reading,
  subject: Pick<Followed, 'id' | 'log' | 'isFinal'>,
  position: ReadPosition,
  snapshot: Snapshot | undefined,
): AsyncGenerator<StreamEvent> {
  const { states, size = 0n, log } = snapshot ?? {};
  if (log !== undefined && log !== (subject.log ?? subject.id)) {
    // States are sent with their own log.
    yield* piecesFrom(parts, subject, position, size, true);
    position.movedTo = log;
    return;
  }
  const last = states?.at(-1);
  const isOver = states === undefined || (last ? subject.isFinal(last.state) : position.over !== undefined);
  const isFirst = position.seen === undefined;
  position.seen = last?.sequence ?? position.seen;
  // Set before the log is sent, because a reader that cannot read it to the end continues from this position.
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
 * The id that a reader has after the end event. A reader that got the whole log but not the end event lacks this id. It
 * gets the rest.
 */
export function endMark(at: bigint | string, { seen = 0n }: ReadPosition): string {
  return `${at};${seen}`;
}

export async function isStillOver(subject: Followed, seen: bigint): Promise<boolean> {
  const last = (await subject.read(undefined))?.states.at(-1);
  return last !== undefined && last.sequence === seen && subject.isFinal(last.state);
}

export function* finalState(position: ReadPosition): Generator<StreamEvent> {
  const state = position.over?.state;
  if (state === undefined || state === position.sent) return;
  position.sent = state;
  yield { type: 'state', state };
}

/** Up to `size`, cut between characters. */
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

/** The number of bytes up to the last whole character. The rest of a cut character may still arrive. */
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
