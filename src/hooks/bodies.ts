import type { IncomingMessage } from 'node:http';
import { ApiError } from '../errors.ts';

/**
 * Reads the bodies of calls from forges. The proof covers every byte, so a body is held whole before the sender is
 * known. Short bodies are read at once. A longer one is read up to the length of a short one, and then waits until
 * there is room for all of it, in total and for its hook. So no hook keeps others waiting. A body that got room must
 * arrive in time.
 */
export interface BodyLimits {
  /** The longest body that is taken. GitHub sends up to this. */
  longest: number;
  /** Up to this length a body is read without waiting for room. */
  short: number;
  /** The memory for longer bodies at the same time. */
  room: number;
  /** How long a body may wait for room, and how long it may take to arrive. */
  waitMs: number;
  totalMs: number;
}

const megabyte = 1024 * 1024;
export const usualLimits: BodyLimits = {
  longest: 25 * megabyte,
  short: 64 * 1024,
  room: 100 * megabyte,
  waitMs: 8000,
  totalMs: 30_000,
};

/** The body is longer than the limit. */
export class TooLongError extends Error {}
/** The body broke off, or did not arrive in time. */
export class BrokenBodyError extends Error {}

export type ReadBody = (request: IncomingMessage, hookId: bigint) => Promise<Buffer>;

export function boundedBodies(limits: BodyLimits = usualLimits): ReadBody {
  const room = sharedRoom(limits);
  return async (request, hookId) => {
    const { 'content-length': declared } = request.headers;
    const length = declared === undefined ? limits.longest : Number(declared);
    if (length > limits.longest) throw new TooLongError();
    using turn = new DisposableStack();
    const makeRoom = async (): Promise<void> => {
      const held = await room(hookId, Math.max(length, limits.short));
      if (turn.disposed)
        held[Symbol.dispose](); // the sender has gone meanwhile
      else turn.use(held);
    };
    return await collect(request, limits, makeRoom);
  };
}

/** Resolves with the whole body. Once it is longer than `short`, it waits for `makeRoom` before it reads on. */
function collect(request: IncomingMessage, limits: BodyLimits, makeRoom: () => Promise<void>): Promise<Buffer> {
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
  const pieces: Buffer[] = [];
  let size = 0;
  let hasRoom = false;
  let isOver = false;
  const fail = (error: Error): void => {
    isOver = true;
    reject(error);
  };
  const timer = setTimeout(() => fail(new BrokenBodyError()), limits.totalMs);
  const take = (piece: Buffer): void => {
    if (isOver) return;
    pieces.push(piece);
    size += piece.length;
    if (size > limits.longest) return fail(new TooLongError());
    if (hasRoom || size <= limits.short) return;
    hasRoom = true;
    request.pause();
    makeRoom().then(() => request.resume(), fail);
  };
  const end = (): void => {
    if (!request.complete || request.errored) return fail(new BrokenBodyError());
    isOver = true;
    resolve(Buffer.concat(pieces, size));
  };
  request.on('data', take).on('end', end).on('error', end).on('close', end);
  return promise.finally(() => {
    clearTimeout(timer);
    request.off('data', take).off('end', end).off('close', end);
    // The rest of the body is read and dropped while the answer is sent. Its errors do not matter any more.
    pieces.length = 0;
  });
}

/** Room for this many bytes in total. One hook gets as much as the longest body takes. First come, first served. */
function sharedRoom({ room, longest, waitMs }: BodyLimits): (hookId: bigint, bytes: number) => Promise<Disposable> {
  const taken = new Map<bigint, number>();
  const waiting = new Set<{ hookId: bigint; bytes: number; go: () => void }>();
  let free = room;
  const fits = (hookId: bigint, bytes: number): boolean => bytes <= free && (taken.get(hookId) ?? 0) + bytes <= longest;
  const add = (hookId: bigint, bytes: number): void => {
    free -= bytes;
    const now = (taken.get(hookId) ?? 0) + bytes;
    if (now === 0) taken.delete(hookId);
    else taken.set(hookId, now);
  };
  const next = (): void => {
    for (const one of waiting) {
      if (!fits(one.hookId, one.bytes)) continue;
      waiting.delete(one);
      one.go();
    }
  };
  return async (hookId, bytes) => {
    const held = {
      [Symbol.dispose]: (): void => {
        add(hookId, -bytes);
        next();
      },
    };
    if (fits(hookId, bytes)) {
      add(hookId, bytes);
      return held;
    }
    const { promise, resolve, reject } = Promise.withResolvers<Disposable>();
    const go = (): void => {
      clearTimeout(timer);
      add(hookId, bytes);
      resolve(held);
    };
    const one = { hookId, bytes, go };
    const timer = setTimeout(() => {
      waiting.delete(one);
      reject(ApiError.ofHttp(503, 'resource_temporary_unavailable', 'generic', { 'retry-after': '10' }));
    }, waitMs);
    waiting.add(one);
    return promise;
  };
}
