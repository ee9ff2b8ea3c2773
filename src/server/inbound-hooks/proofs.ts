import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';

export type ProofForm =
  /** HMAC-SHA256 over the exact bytes of the payload, in hexadecimal after a prefix. */
  | { kind: 'hmac'; header: string; prefix: string }
  | { kind: 'token'; header: string; prefix: RegExp }
  /** As in the Standard Webhooks specification. */
  | { kind: 'standard' };

export type Verdict = 'proven' | 'wrong' | 'undecided';

/** Without a proof in the headers, the body need not be read. */
export function checkHeadProof(forms: readonly ProofForm[], secret: string, headers: IncomingHttpHeaders): Verdict {
  const sent = forms.filter((form) => headers[headerOf(form)] !== undefined);
  const tokens = sent.filter((form) => form.kind === 'token');
  if (tokens.some(({ header, prefix }) => isToken(secret, single(headers, header), prefix))) return 'proven';
  return sent.length > tokens.length ? 'undecided' : 'wrong';
}

export function isSigned(
  forms: readonly ProofForm[],
  secret: string,
  headers: IncomingHttpHeaders,
  bytes: Uint8Array,
  now = Date.now(),
): boolean {
  return forms.some((form) => {
    if (form.kind === 'standard') return isStandard(secret, headers, bytes, now);
    if (form.kind === 'token') return false;
    const sent = single(headers, form.header);
    if (!sent.startsWith(form.prefix)) return false;
    const signature = sent.slice(form.prefix.length);
    if (!/^[0-9a-f]{64}$/i.test(signature)) return false;
    return timingSafeEqual(Buffer.from(signature, 'hex'), hmac(secret, bytes));
  });
}

function headerOf(form: ProofForm): string {
  return form.kind === 'standard' ? 'webhook-signature' : form.header;
}

function isToken(secret: string, sent: string, prefix: RegExp): boolean {
  const [found] = prefix.exec(sent) ?? [];
  if (found === undefined) return false;
  // Digests have the same length for every input, so the time reveals nothing, not even a length.
  return timingSafeEqual(digest(sent.slice(found.length)), digest(secret));
}

/** An older or future signature may be a replay. */
const toleranceSeconds = 5 * 60;
const mostSignatures = 16;

/** https://www.standardwebhooks.com: base64 after `whsec_`, and perhaps several signatures in the header. */
function isStandard(secret: string, headers: IncomingHttpHeaders, bytes: Uint8Array, now: number): boolean {
  const [id, timestamp] = [single(headers, 'webhook-id'), single(headers, 'webhook-timestamp')];
  if (id === '' || !/^\d{1,12}$/.test(timestamp)) return false;
  if (Math.abs(now / 1000 - Number(timestamp)) > toleranceSeconds) return false;
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64');
  const signed = createHmac('sha256', key).update(`${id}.${timestamp}.`).update(bytes).digest('base64');
  const right = Buffer.from(`v1,${signed}`);
  return single(headers, 'webhook-signature')
    .split(' ', mostSignatures)
    .some((signature) => {
      const sent = Buffer.from(signature);
      return sent.length === right.length && timingSafeEqual(sent, right);
    });
}

/** No forge repeats such a header. Node joins most repeated ones with a comma, which matches nothing. */
function single(headers: IncomingHttpHeaders, name: string): string {
  const value = headers[name];
  return typeof value === 'string' ? value : '';
}

function hmac(secret: string, bytes: Uint8Array): Buffer {
  return createHmac('sha256', secret).update(bytes).digest();
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
