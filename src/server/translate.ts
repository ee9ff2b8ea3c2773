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
    if (error instanceof LeaseLapsedError || isUnavailable(error))
      return new ApiError('resource_temporary_unavailable');
    if (!isDatabaseFull(error) && !isNoSpace(error)) return undefined;
    log.error({ err: error }, 'a request was refused because the disk is full');
    return new ApiError('resource_temporary_unavailable');
  };
}
