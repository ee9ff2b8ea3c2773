import type { IncomingHttpHeaders } from 'node:http';
import { ApiError } from '../../shared/errors.ts';
import { BusyThreadError, createWorkerThread, type WorkerThread } from '../../shared/lib/worker-thread.ts';
import { PayloadError, type Facts } from './facts.ts';
import { measuredNames } from '../../shared/lib/untrusted-json.ts';
import { payloadLimits, type Json } from './json.ts';
import { isSigned } from './proofs.ts';
import type { HookRow } from '../db/schema.ts';
import { providerOf, type Provider } from './providers.ts';

export interface Sent {
  provider: HookRow['provider'];
  secret: string;
  headers: IncomingHttpHeaders;
  isProven: boolean;
  bytes: Buffer<ArrayBuffer>;
}

export type PayloadResult =
  | { facts: Facts }
  | { refused: Pick<PayloadError, 'field' | 'code' | 'message'> }
  | { isUnproven: true };

/** Hooks take turns. */
export type PayloadThread = WorkerThread<Sent, PayloadResult>;

/** Waiting payloads are held in memory. */
export function createPayloadThread(): PayloadThread {
  return createWorkerThread('server/inbound-hooks/payload-worker.ts', {
    mostOfOne: 2,
    mostOfAll: 8,
    timeoutMs: 30_000,
  });
}

/** Up to this length, reading takes only a few milliseconds. */
const short = 128 * 1024;

export async function readPayload(thread: PayloadThread, hookId: bigint, sent: Sent): Promise<PayloadResult> {
  if (sent.bytes.length <= short) return readSent(sent);
  try {
    return await thread.ask(hookId, sent, [sent.bytes.buffer]);
  } catch (error) {
    if (error instanceof BusyThreadError)
      throw ApiError.ofHttp(503, 'resource_temporary_unavailable', 'generic', { 'retry-after': '10' });
    if (!sent.isProven) return { isUnproven: true };
    const message = 'The payload exceeds the limits on time or memory for reading it.';
    return { refused: { field: 'generic', code: 'invalid_format', message } };
  }
}

/** Checks the proof over the exact bytes, and only then parses them. */
export function readSent({ provider: name, secret, headers, isProven, bytes }: Sent): PayloadResult {
  const provider = providerOf({ provider: name });
  const body = openBody(provider, headers, bytes);
  if (!isProven && !isSigned(provider.proofs, secret, headers, body.signed)) return { isUnproven: true };
  try {
    return { facts: body.read() };
  } catch (error) {
    if (!(error instanceof PayloadError)) throw error;
    const { field, code, message } = error;
    return { refused: { field, code, message } };
  }
}

/** The bytes that the signature covers. Call `read` only after it is verified. */
export interface Unproven {
  signed: Uint8Array;
  read(): Facts;
}

/** Parses a body only as far as its proof needs. */
export function openBody(provider: Provider, headers: IncomingHttpHeaders, body: Buffer): Unproven {
  const event = textIn(headers, provider.eventHeader);
  const read = (payload: () => Json) => (): Facts => {
    if (provider.eventHeader !== '' && event === '') {
      const field = provider.eventHeader.replaceAll('-', '_');
      throw new PayloadError(field, 'is_blank', `There is no ${provider.eventHeader} , which names the event.`);
    }
    return provider.read(event, payload());
  };
  if (!isForm(headers, body)) return { signed: body, read: read(() => parse(body)) };
  const fields = (): URLSearchParams => new URLSearchParams(body.toString());
  if (!provider.form) return { signed: body, read: read(() => Object.fromEntries(fields())) };
  const inForm = (): Buffer | undefined => {
    const [payload, ...more] = fields().getAll('payload');
    return payload === undefined || more.length > 0 ? undefined : Buffer.from(payload);
  };
  return {
    signed: provider.form.signed === 'payload' ? (inForm() ?? body) : body,
    read: read(() => {
      const whole = inForm();
      if (whole) return parse(whole);
      throw new PayloadError('payload', 'is_blank', 'The form must have one field “payload”.');
    }),
  };
}

/** The first byte counts too: `curl -d` calls everything a form. */
function isForm(headers: IncomingHttpHeaders, body: Buffer): boolean {
  const [type = ''] = (headers['content-type'] ?? '').split(';', 1);
  return type.trim().toLowerCase() === 'application/x-www-form-urlencoded' && body[0] !== 0x7b;
}

const utf8 = new TextDecoder('utf-8', { fatal: true });

function parse(bytes: Buffer): Json {
  if (bytes.length === 0) throw new PayloadError('generic', 'invalid_format', 'The payload is empty.');
  let payload: Json;
  try {
    const text = utf8.decode(bytes);
    if (measuredNames(text, payloadLimits) === undefined) throw tooMuch();
    payload = JSON.parse(text);
  } catch (error) {
    if (error instanceof PayloadError) throw error;
    throw new PayloadError('generic', 'invalid_format', 'The payload is not valid JSON.');
  }
  if (typeof payload === 'object' && payload !== null && !Array.isArray(payload)) return payload;
  throw new PayloadError('generic', 'invalid_format', 'The payload is not a JSON object.');
}

const tooMuch = (): PayloadError =>
  new PayloadError('generic', 'invalid_format', 'The payload is nested too deeply, or has too many values.');

export function textIn(headers: IncomingHttpHeaders, name: string): string {
  const value = headers[name];
  return typeof value === 'string' ? value.trim() : '';
}
