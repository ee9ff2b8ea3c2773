/**
 * The database, or the store of the blobs, could not serve the request: it is unreachable, or too busy. The request
 * itself is fine, and the caller should try again later. Holds only a message, no objects of the driver.
 */
export class UnavailableError extends Error {
  /** The connection was lost during the commit: the writes may be there or not. */
  readonly mayBeDone: boolean;
  /** Waiting alone does not help: an operator has to change something, such as a setting. */
  readonly needsOperator: boolean;

  constructor(message: string, { mayBeDone = false, needsOperator = false } = {}) {
    super(message);
    this.name = 'UnavailableError';
    this.mayBeDone = mayBeDone;
    this.needsOperator = needsOperator;
  }
}

/** It is the store of the blobs that is away: what needs none goes on. */
export class BlobsAwayError extends UnavailableError {}

export function isUnavailable(error: unknown): error is UnavailableError {
  return error instanceof UnavailableError;
}

/** Runs work that can be repeated later; returns false when it was unavailable. */
export async function whereAvailable(work: () => Promise<void>): Promise<boolean> {
  try {
    await work();
    return true;
  } catch (error) {
    if (!isUnavailable(error)) throw error;
    return false;
  }
}
