import type { CheckOrder } from '../shared/protocol/index.ts';
import { FetchError } from './git/failures.ts';
import type { JobRunner } from './job-runner.ts';

/** Checks whether the repository can be read. It has no log: the answer holds everything. */
export const checkConnection: JobRunner<CheckOrder> = async ({ mirrors }, { source, timeoutMs }, { signal }) => {
  try {
    return { kind: 'checked', ...(await mirrors.checkAccess({ ...source, timeoutMs, signal })) };
  } catch (error) {
    if (error instanceof FetchError) return { kind: 'unfetchable', reason: error.kind, message: error.message };
    throw error;
  }
};
