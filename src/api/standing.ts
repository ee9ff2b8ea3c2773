import { ApiError } from '../errors.ts';

/** How long somebody who lost their access may still be told something. */
const patience = 1000;

/**
 * A stream can outlive the right to read it: a token is revoked, an account suspended, a collaborator taken off. So
 * its reader is asked for their right again and again, and it ends when they have none any more. What is not told
 * while nothing happens needs no asking.
 */
export async function* whileAdmitted<Piece>(
  body: AsyncIterable<Piece>,
  askAgain: () => Promise<unknown>,
): AsyncGenerator<Piece> {
  let asked = Date.now();
  for await (const piece of body) {
    if (Date.now() - asked >= patience) {
      if (!(await isStillAdmitted(askAgain))) return;
      asked = Date.now();
    }
    yield piece;
  }
}

async function isStillAdmitted(askAgain: () => Promise<unknown>): Promise<boolean> {
  try {
    await askAgain();
    return true;
  } catch (error) {
    if (error instanceof ApiError) return false;
    throw error;
  }
}
