import type { IncomingMessage } from 'node:http';
import https from 'node:https';
import { bytes as bounds } from '../domain/bounds.ts';
import { http } from '../lib/http.ts';
import type { Mask } from '../domain/masking.ts';
import { allowedLookup, type AddressRules } from '../lib/address-filter.ts';
import type { Attempt } from '../lifecycle/webhook-deliveries.ts';

export interface HttpCall {
  url: string;
  headers: Record<string, string>;
  body: string;
  /** Secrets in the request. They must not be stored, even if the receiver sends them back. */
  secrets: readonly string[];
}

export interface CallRules extends AddressRules {
  answerWithin: number;
  /** Hides the call's secrets in the stored part of the answer. */
  mask: Mask;
  /** Ends a call whose result is not needed any more. */
  signal: AbortSignal;
}

/**
 * Makes one call and returns the result; anything the receiver does is a result and no exception. The name is resolved
 * here and the connection is made to an address that was checked, so that a second look-up cannot give another address.
 * Redirects are answers like any other. Each call has its own connection: a receiver could close a kept one at the
 * moment of its use, which would look like a failure.
 */
export async function makeCall(call: HttpCall, rules: CallRules): Promise<Attempt> {
  const startedAt = performance.now();
  const ending = new AbortController();
  const late = new Error(`no answer within ${rules.answerWithin / 1000} seconds`);
  const timer = setTimeout(() => ending.abort(late), rules.answerWithin);
  const stop = (): void => ending.abort(rules.signal.reason);
  rules.signal.addEventListener('abort', stop, { once: true });
  if (rules.signal.aborted) stop();
  try {
    const result = await exchange(call, rules, ending.signal).catch((error: unknown) => ({
      status: null,
      answer: '',
      error: rules.mask.maskText(errorText(ending.signal.aborted ? ending.signal.reason : error)),
    }));
    return { ...result, durationMs: performance.now() - startedAt };
  } finally {
    clearTimeout(timer);
    rules.signal.removeEventListener('abort', stop);
  }
}

async function exchange(
  { url, headers, body }: HttpCall,
  { mask, ...rules }: CallRules,
  ending: AbortSignal,
): Promise<Omit<Attempt, 'durationMs'>> {
  const target = new URL(url);
  const lookup = await allowedLookup(target, rules, ending);
  const { request } = target.protocol === 'https:' ? https : http;
  const response = Promise.withResolvers<IncomingMessage>();
  const call = request(target, {
    method: 'POST',
    agent: false,
    lookup,
    ...(rules.trust && { secureContext: rules.trust.context() }),
    signal: ending,
    headers: {
      'content-type': 'application/json; charset=utf-8',
      'content-length': Buffer.byteLength(body),
      'user-agent': 'Headrace',
      ...headers,
    },
  });
  call.once('response', response.resolve);
  // Also after the answer: a receiver that is cut off in the middle of a long answer may cause an error.
  call.on('error', response.reject);
  // A receiver that switches to another protocol.
  call.once('upgrade', (_, socket) => {
    socket.destroy();
    response.reject(new Error('the receiver wants to speak another protocol'));
  });
  call.end(body);
  try {
    const incoming = await response.promise;
    return { status: incoming.statusCode ?? null, answer: await beginningOf(incoming, mask), error: '' };
  } finally {
    call.destroy();
  }
}

/**
 * The first part of an answer. If the receiver breaks off or is too slow, the status and the bytes so far still count.
 */
async function beginningOf(incoming: IncomingMessage, mask: Mask): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    for await (const chunk of incoming as AsyncIterable<Buffer>) {
      const shown = mask.push(chunk);
      chunks.push(shown);
      size += shown.length;
      if (size >= bounds.receiverAnswer) break;
    }
  } catch {
    // The bytes so far are kept.
  }
  const held = mask.flush();
  // Held bytes may be the beginning of a secret, unless the answer ended here.
  if (incoming.complete) chunks.push(held);
  const bytes = Buffer.concat(chunks).subarray(0, bounds.receiverAnswer);
  // A character that was cut in the middle is left out. A zero character is replaced, because no database stores it in
  // a text.
  return new TextDecoder().decode(bytes, { stream: true }).replaceAll('\0', '\uFFFD');
}

const failureMessages: Record<string, string> = {
  ECONNREFUSED: 'the connection was refused',
  ECONNRESET: 'the connection was closed without an answer',
  EPIPE: 'the connection was closed without an answer',
  EHOSTUNREACH: 'the host cannot be reached',
  ENETUNREACH: 'the host cannot be reached',
  ENOTFOUND: 'the host name is not known',
  EAI_AGAIN: 'the name servers do not answer',
};

function errorText(error: unknown): string {
  if (error instanceof AggregateError) return errorText(error.errors[0]);
  if (!(error instanceof Error)) return String(error);
  const code = 'code' in error ? String(error.code) : '';
  if (code.startsWith('HPE_')) return 'the answer is not HTTP';
  return (failureMessages[code] ?? error.message).slice(0, 500).replaceAll('\0', '\uFFFD');
}
