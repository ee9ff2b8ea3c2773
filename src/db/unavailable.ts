/**
 * The database could not do what it was asked: it is away, or too many wanted the same thing. Nothing is wrong with what
 * was asked, so to ask again later is all that there is to do. Holds words alone, and nothing of the driver.
 */
export class UnavailableError extends Error {
  /** The connection was lost in the middle of the commit: what was to be written may be there or not. */
  readonly mayBeDone: boolean;

  constructor(message: string, { mayBeDone = false } = {}) {
    super(message);
    this.name = 'UnavailableError';
    this.mayBeDone = mayBeDone;
  }
}

export function isUnavailable(error: unknown): error is UnavailableError {
  return error instanceof UnavailableError;
}

/** Does something that can be taken up again later; answers whether it was done, or the database is not there for it. */
export async function whereAvailable(work: () => Promise<void>): Promise<boolean> {
  try {
    await work();
    return true;
  } catch (error) {
    if (!isUnavailable(error)) throw error;
    return false;
  }
}
