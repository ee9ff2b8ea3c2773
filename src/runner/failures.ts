/** The server does not let this runner in: to ask again would not help. */
export class RefusedError extends Error {}

/** The server does not take this message, and will not take it the next time. */
export class RejectedError extends Error {}

/** Whoever answers under this version does not understand this runner, nor the other way round. */
export function otherVersion(own: string, theirs: string): RefusedError {
  return new RefusedError(
    `this runner is headrace ${own} and the server ${theirs.slice(0, 64)}: they understand each other when they are at most one minor ` +
      `version apart. Start the runner with the version that the server has.`,
  );
}

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

/** What OpenSSL has against a certificate, where it is that nobody vouches for it. */
const untrusted = new Set([
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
]);

/** Why nobody could be reached, with what to do about it where that is known. */
export function inWords(
  error: Error & { code?: string },
  { hostname }: { hostname?: string | null | undefined },
): Error {
  if (untrusted.has(error.code ?? '')) {
    return new Error(
      `the certificate of ${hostname} is not trusted here (${error.message}). If it is the server's own, copy ` +
        'tls/cert.pem from its data folder and name the copy with --ca-file.',
      { cause: error },
    );
  }
  if (error.code === 'ERR_TLS_CERT_ALTNAME_INVALID') {
    return new Error(
      `the certificate of the server is not for ${hostname} (${error.message}). Name the server in --url as its ` +
        'certificate does, or set base_url there to the address that is used here; a new certificate has that name, and is to be copied for --ca-file anew.',
      { cause: error },
    );
  }
  return error;
}
