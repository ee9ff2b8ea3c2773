/** The server does not let this runner in: to ask again would not help. */
export class RefusedError extends Error {}

/** The server does not take this message, and will not take it the next time. */
export class RejectedError extends Error {}

/**
 * Why a call did not succeed. Only what the server itself answers in its own form is final: what stands in between may
 * have nothing to pass calls on to for a moment, and says all kinds of things then.
 */
export function failureOf(path: string, status: number | undefined, text: string): Error {
  if (status === 401) return new RefusedError('the server does not know the token of this runner, or not any more');
  const message = `the server answered ${path} with ${status}: ${text.slice(0, 200)}`;
  const isFinal = status !== undefined && status >= 400 && status < 500 && text.startsWith('{"error":{');
  return isFinal ? new RejectedError(message) : new Error(message);
}
