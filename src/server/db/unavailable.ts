/**
 * The database or blob storage is unreachable or too busy: retry later. Has only a message, no objects of the driver.
 */
export class UnavailableError extends Error {
  /** The connection was lost during the commit: the writes may or may not be stored. */
  readonly mayBeDone: boolean;
  /** An operator must change something, such as a setting. Waiting does not help. */
  readonly needsOperator: boolean;

  constructor(message: string, { mayBeDone = false, needsOperator = false } = {}) {
    super(message);
    this.name = 'UnavailableError';
    this.mayBeDone = mayBeDone;
    this.needsOperator = needsOperator;
  }
}

/** The database currently refuses writes. Reads continue. */
export class WritesRefusedError extends UnavailableError {
  readonly why: 'full' | 'read-only';

  constructor(why: 'full' | 'read-only', message: string) {
    super(`the database is ${why}: ${message}`);
    this.name = 'WritesRefusedError';
    this.why = why;
  }
}

/** Blob storage is unreachable. Work without blobs can continue. */
export class BlobsAwayError extends UnavailableError {}

export function isUnavailable(error: unknown): error is UnavailableError {
  return error instanceof UnavailableError;
}

/** For work that can be repeated later. Returns false if the database or blob storage was unavailable. */
export async function whereAvailable(work: () => Promise<void>): Promise<boolean> {
  try {
    await work();
    return true;
  } catch (error) {
    if (!isUnavailable(error)) throw error;
    return false;
  }
}
