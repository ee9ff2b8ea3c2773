import type { CheckOrder } from '../shared/protocol/index.ts';
import { FetchError } from './git/failures.ts';
import type { JobRunner } from './job-runner.ts';

/** Writes no log, because the outcome contains everything. */
export const checkConnection: JobRunner<CheckOrder> = async ({ mirrors }, { source, timeoutMs }, { signal }) => {
  try {
    return { kind: 'checked', ...(await mirrors.checkAccess({ ...source, timeoutMs, signal })) };
  } catch (error) {
    if (error instanceof FetchError) return { kind: 'unfetchable', reason: error.kind, message: error.message };
    throw error;
  }
};
