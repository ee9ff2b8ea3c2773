import type { IncomingHttpHeaders } from 'node:http';
import { PayloadError, type Facts } from './facts.ts';
import { isModest, type Json } from './json.ts';
import type { Provider } from './providers.ts';

/**
 * A body as it came: the bytes that its signature covers, and a function that reads the payload once the signature is
 * verified.
 */
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
      throw new PayloadError(field, 'is_blank', `There is no ${provider.eventHeader} that says what it is about.`);
    }
    return provider.read(event, payload());
  };
  if (!isForm(headers, body)) return { signed: body, read: read(() => parse(body)) };
  const fields = new URLSearchParams(body.toString());
  if (!provider.form) return { signed: body, read: read(() => Object.fromEntries(fields)) };
  const [payload, ...more] = fields.getAll('payload');
  const whole = payload === undefined || more.length > 0 ? undefined : Buffer.from(payload);
  return {
    signed: provider.form.signed === 'payload' ? (whole ?? body) : body,
    read: read(() => {
      if (whole) return parse(whole);
      throw new PayloadError('payload', 'is_blank', 'The form has not one field “payload”.');
    }),
  };
}

/** Decided by the first byte, too: `curl -d` calls everything a form. */
function isForm(headers: IncomingHttpHeaders, body: Buffer): boolean {
  const [type = ''] = (headers['content-type'] ?? '').split(';', 1);
  return type.trim().toLowerCase() === 'application/x-www-form-urlencoded' && body[0] !== 0x7b;
}

const utf8 = new TextDecoder('utf-8', { fatal: true });

function parse(bytes: Buffer): Json {
  if (bytes.length === 0) throw new PayloadError('generic', 'invalid_format', 'The payload is empty.');
  if (!isModest(bytes)) {
    throw new PayloadError('generic', 'invalid_format', 'The payload is nested too deeply, or has too many values.');
  }
  let payload: Json;
  try {
    payload = JSON.parse(utf8.decode(bytes));
  } catch {
    throw new PayloadError('generic', 'invalid_format', 'The payload is no JSON that can be read.');
  }
  if (typeof payload === 'object' && payload !== null && !Array.isArray(payload)) return payload;
  throw new PayloadError('generic', 'invalid_format', 'The payload is no JSON object.');
}

export function textIn(headers: IncomingHttpHeaders, name: string): string {
  const value = headers[name];
  return typeof value === 'string' ? value.trim() : '';
}
