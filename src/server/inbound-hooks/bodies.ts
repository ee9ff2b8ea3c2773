import type { IncomingMessage } from 'node:http';
import { ApiError } from '../../shared/errors.ts';
import { bytes } from '../../shared/domain/bounds.ts';
import { sharedRoom, type Crowding, type RoomLimits } from '../../shared/lib/shared-room.ts';

/**
 * The proof covers every byte, so a body is buffered before its sender is known, even if the sender is untrusted.
 *
 * So all buffered bodies share limits: in total, per network, and per account. At a limit, the slowest bodies are
 * ended. A sender that only holds bodies open loses them. To crowd out a delivery it must send faster than the forge.
 */
export interface BodyLimits extends RoomLimits {
  /** GitHub sends up to this. */
  longest: number;
  /** Forges give up sooner. */
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

/** The memory cost of each piece, however short. */
const pieceCost = 256;

export class TooLongError extends Error {}
export class BrokenBodyError extends Error {}

/** `sharers` are the network and the account that the body counts for. */
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
    /** The rest of the body is read and dropped while the response is sent. Its errors no longer matter. */
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
