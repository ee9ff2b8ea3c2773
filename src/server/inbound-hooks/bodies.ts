import type { IncomingMessage } from 'node:http';
import { ApiError } from '../../shared/errors.ts';
import { bytes } from '../../shared/domain/bounds.ts';
import { sharedRoom, type Crowding, type RoomLimits } from '../../shared/lib/shared-room.ts';

/**
 * Reads the bodies of calls from forges. The proof covers every byte, so a body is held whole before the sender is
 * known, and strangers can have one held too.
 *
 * So what has arrived of all bodies together has a limit, and so has what came from one network, and what came for the
 * hooks of one account. Where a limit is reached, the bodies that arrive slowest are ended. Who only holds bodies open,
 * from however many addresses, loses them; who wants to keep a delivery out has to send more bytes in a second than the
 * forge does.
 */
export interface BodyLimits extends RoomLimits {
  /** The longest body that is taken. GitHub sends up to this. */
  longest: number;
  /** How long a body may take to arrive. Forges give up sooner. */
  totalMs: number;
}

const megabyte = 1024 * 1024;
export const usualLimits: BodyLimits = {
  longest: bytes.hookPayload,
  room: 200 * megabyte,
  share: 100 * megabyte,
  graceMs: 1000,
  totalMs: 30_000,
};

/** Every piece of a body also costs so much memory, however short it is. */
const pieceCost = 256;

/** The body is longer than the limit. */
export class TooLongError extends Error {}
/** The body broke off, did not arrive in time, or had to make room for faster ones. */
export class BrokenBodyError extends Error {}

/** `sharers` names the network and the account that the body counts for. */
export type ReadBody = (request: IncomingMessage, sharers: readonly string[]) => Promise<Buffer<ArrayBuffer>>;

export function boundedBodies(limits: BodyLimits = usualLimits, now = () => performance.now()): ReadBody {
  const room = sharedRoom(limits, now);
  return async (request, sharers) => {
    if (Number(request.headers['content-length'] ?? 0) > limits.longest) throw new TooLongError();
    const { promise, resolve, reject } = Promise.withResolvers<Buffer<ArrayBuffer>>();
    const pieces: Buffer[] = [];
    let size = 0;
    const held = room(sharers, (why) => fail(crowded(why)));
    const timer = setTimeout(() => fail(new BrokenBodyError()), limits.totalMs);
    const take = (piece: Buffer): void => {
      size += piece.length;
      if (size > limits.longest) return fail(new TooLongError());
      pieces.push(piece);
      held.add(piece.length + pieceCost);
    };
    const end = (): void => {
      if (!request.complete || request.errored) return fail(new BrokenBodyError());
      release();
      resolve(Buffer.concat(pieces, size));
    };
    const release = (): void => {
      clearTimeout(timer);
      request.off('data', take).off('end', end).off('close', end);
      held.release();
    };
    /** The rest of the body is read and dropped while the answer is sent. Its errors do not matter any more. */
    const fail = (error: Error): void => {
      release();
      pieces.length = 0;
      reject(error);
    };
    request.on('data', take).on('end', end).on('error', end).on('close', end);
    return promise;
  };
}

function crowded(why: Crowding): Error {
  if (why === 'slow') return new BrokenBodyError();
  return ApiError.ofHttp(503, 'resource_temporary_unavailable', 'generic', { 'retry-after': '10' });
}
