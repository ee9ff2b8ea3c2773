import type { IncomingMessage } from 'node:http';
import { bytes as bounds } from '../../shared/domain/bounds.ts';
import type { Mask } from '../../shared/domain/masking.ts';
import { failureText, guardedRequest, retryAfterOf, type RequestRules } from '../../shared/lib/guarded-request.ts';
import type { Attempt } from '../lifecycle/webhook-deliveries.ts';

export interface HttpCall {
  /** The default is POST. */
  method?: 'PUT';
  url: string;
  headers: Record<string, string>;
  body: string;
  /** Must not be stored, even if the receiver sends them back. */
  secrets: readonly string[];
}

export interface CallRules extends RequestRules {
  /** Hides the call's secrets in the stored part of the response. */
  mask: Mask;
}

export type Verdict = 'taken' | 'refused' | 'not_taken';

export interface CallResult extends Attempt {
  /** If the status alone does not decide it. */
  verdict?: Verdict;
  retryAfterMs?: number | undefined;
}

/** Every behaviour of the receiver is a result, not an exception. */
export async function makeCall(
  { url, method, headers, body }: HttpCall,
  { mask, ...rules }: CallRules,
): Promise<CallResult> {
  const startedAt = performance.now();
  const result = await guardedRequest({ url, headers, body, ...(method && { method }) }, rules, async (incoming) => ({
    status: incoming.statusCode ?? null,
    answer: await beginningOf(incoming, mask),
    error: '',
    retryAfterMs: retryAfterOf(incoming, Date.now()),
  })).catch((error: unknown) => ({ status: null, answer: '', error: mask.maskText(failureText(error)) }));
  return { ...result, durationMs: performance.now() - startedAt };
}

/** If the connection breaks or the receiver is too slow, the status and the bytes so far still count. */
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
    // The bytes so far still count.
  }
  const held = mask.flush();
  // Held bytes may be the beginning of a secret, unless the response ended here.
  if (incoming.complete) chunks.push(held);
  const bytes = Buffer.concat(chunks).subarray(0, bounds.receiverAnswer);
  // Drops a cut character. No database stores a zero character in a text.
  return new TextDecoder().decode(bytes, { stream: true }).replaceAll('\0', '\uFFFD');
}
