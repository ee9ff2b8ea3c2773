import http, { type IncomingMessage } from 'node:http';
import https from 'node:https';
import type { Mask } from '../lib/masking.ts';
import { judgedLookup, type AddressRules } from '../lib/public-addresses.ts';
import type { Attempt } from '../lifecycle/deliveries.ts';

export interface HttpCall {
  url: string;
  headers: Record<string, string>;
  body: string;
  /** What is sent and must not be kept, even where the receiver says it back. */
  secrets: readonly string[];
}

export interface CallRules extends AddressRules {
  answerWithin: number;
  /** Hides the call's secrets in what is kept of the answer. */
  mask: Mask;
  /** Ends a call that nobody waits for any more. */
  signal: AbortSignal;
}

/** So much of an answer is read and kept; the rest is not even received. */
const mostOfAnswer = 1024;

/**
 * Makes one call and answers what came of it; whatever the receiver does, that is an answer and no exception. The name
 * is resolved here and the connection is made to an address that was judged, so that there is no second look-up that
 * could say something else. Redirects are answers like any other. Each call has a connection of its own: one that was
 * kept open could be closed by the receiver at the moment it is used, which would look like a failure.
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
      error: rules.mask.maskText(inWords(ending.signal.aborted ? ending.signal.reason : error)),
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
  const lookup = await judgedLookup(target, rules, ending);
  const { request } = target.protocol === 'https:' ? https : http;
  const response = Promise.withResolvers<IncomingMessage>();
  const call = request(target, {
    method: 'POST',
    agent: false,
    lookup,
    signal: ending,
    headers: {
      'content-type': 'application/json; charset=utf-8',
      'content-length': Buffer.byteLength(body),
      'user-agent': 'Headrace',
      ...headers,
    },
  });
  call.once('response', response.resolve);
  // Also after the answer: a receiver that is cut off in the middle of a long one may complain.
  call.on('error', response.reject);
  // A receiver that would rather speak something else than HTTP.
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

/** A receiver that breaks off or dawdles has still said what it said, and its status stands. */
async function beginningOf(incoming: IncomingMessage, mask: Mask): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    for await (const chunk of incoming as AsyncIterable<Buffer>) {
      const shown = mask.push(chunk);
      chunks.push(shown);
      size += shown.length;
      if (size >= mostOfAnswer) break;
    }
  } catch {
    // What came before is kept.
  }
  const held = mask.flush();
  // It may be the beginning of a secret, unless it was all that there is.
  if (incoming.complete) chunks.push(held);
  const bytes = Buffer.concat(chunks).subarray(0, mostOfAnswer);
  // A character that was cut through is left out; one that no database keeps in a text is replaced.
  return new TextDecoder().decode(bytes, { stream: true }).replaceAll('\0', '\uFFFD');
}

const words: Record<string, string> = {
  ECONNREFUSED: 'the connection was refused',
  ECONNRESET: 'the connection was closed without an answer',
  EPIPE: 'the connection was closed without an answer',
  EHOSTUNREACH: 'the host cannot be reached',
  ENETUNREACH: 'the host cannot be reached',
  ENOTFOUND: 'the host name is not known',
  EAI_AGAIN: 'the name servers do not answer',
};

function inWords(error: unknown): string {
  if (error instanceof AggregateError) return inWords(error.errors[0]);
  if (!(error instanceof Error)) return String(error);
  const code = 'code' in error ? String(error.code) : '';
  if (code.startsWith('HPE_')) return 'the answer is not HTTP';
  return (words[code] ?? error.message).slice(0, 500).replaceAll('\0', '\uFFFD');
}
