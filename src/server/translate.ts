import type { FastifyBaseLogger } from 'fastify';
import { isDatabaseFull, isForeignKeyViolation } from './db/open.ts';
import { LeaseLapsedError } from './db/node-lease.ts';
import { isUnavailable } from './db/unavailable.ts';
import { ApiError } from '../shared/errors.ts';
import { isNoSpace } from '../shared/lib/disk-reserve.ts';

export function translateWith(log: FastifyBaseLogger): (error: unknown) => ApiError | undefined {
  return (error) => {
    // A record that the new one belongs to was deleted meanwhile.
    if (isForeignKeyViolation(error)) return new ApiError('not_found');
    const isFull = isDatabaseFull(error) || isNoSpace(error);
    if (isFull) log.error({ err: error }, 'a request was refused because the disk is full');
    return isFull || error instanceof LeaseLapsedError || isUnavailable(error)
      ? new ApiError('resource_temporary_unavailable')
      : undefined;
  };
}
