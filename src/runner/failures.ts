import type { IncomingMessage } from 'node:http';
import { blobsAwayField, version } from '../shared/protocol/index.ts';
import { hasUntrustedIssuer } from '../shared/lib/untrusted-issuer.ts';

/** The server refuses this runner, so a retry is useless. */
export class RefusedError extends Error {}

/** The server refuses this message, and would refuse it again. */
export class RejectedError extends Error {}

/** The server responds, but its blob storage is unreachable. */
export class StoreAwayError extends Error {}

/** The server responds with an internal error to this message, perhaps every time. */
export class BrokenServerError extends Error {}

export function otherVersion(theirs: string): RefusedError {
  return new RefusedError(
    `this runner is headrace ${version} and the server ${theirs.slice(0, 64)}: they speak different protocols. ` +
      'Start the runner with the server’s version.',
  );
}

export function revoked(): RefusedError {
  return new RefusedError('the server does not know the token of this runner, or it was revoked');
}

/** Our server's error messages are shorter. But a proxy in between may send any text, even without end. */
const longestRefusal = 4096;
const refusalMs = 20_000;

/** The beginning of a failed response. */
export async function refusalIn(response: IncomingMessage): Promise<string> {
  const late = setTimeout(() => response.destroy(new Error('the server did not end its answer')), refusalMs);
  let text = '';
  try {
    for await (const piece of response.setEncoding('utf8')) {
      text += String(piece);
      if (text.length > longestRefusal) break;
    }
    return text.slice(0, longestRefusal);
  } finally {
    clearTimeout(late);
  }
}

/** Only a response in the server's own format is final. A proxy's error may be temporary. */
export function failureOf(what: string, status: number | undefined, text: string): Error {
  if (status === 401) return revoked();
  const message = `the server answered ${what} with ${status}: ${text.slice(0, 200)}`;
  if (status === 503 && text.startsWith(`{"error":{"${blobsAwayField}":`)) return new StoreAwayError(message);
  const isOwn = status !== undefined && text.startsWith('{"error":{');
  if (isOwn && status === 500) return new BrokenServerError(message);
  return isOwn && status >= 400 && status < 500 ? new RejectedError(message) : new Error(message);
}

export function explainUnreachable(
  error: Error & { code?: string },
  { hostname }: { hostname?: string | null | undefined },
): Error {
  if (hasUntrustedIssuer(error.code)) {
    return new Error(
      `the certificate of ${hostname} is not trusted here (${error.message}). If the server made it itself, copy ` +
        'tls/cert.pem from its data folder and pass the copy with --ca-file.',
      { cause: error },
    );
  }
  if (error.code === 'ERR_TLS_CERT_ALTNAME_INVALID') {
    return new Error(
      `the certificate of the server is not for ${hostname} (${error.message}). Use a name in --url that its ` +
        'certificate has, or set base_url on the server to the address used here. The server then makes a new certificate with that name: copy it again for --ca-file.',
      { cause: error },
    );
  }
  return error;
}
