import { createHmac } from 'node:crypto';

const secretPrefix = 'whsec_';

/** Headers as in the Standard Webhooks specification. They prove the sender, the time and the delivery. */
export function signedHeaders(secret: string, id: string, body: string, now: number): Record<string, string> {
  const seconds = String(Math.floor(now / 1000));
  const key = Buffer.from(secret.slice(secretPrefix.length), 'base64');
  const signature = createHmac('sha256', key).update(`${id}.${seconds}.${body}`).digest('base64');
  return { 'webhook-id': id, 'webhook-timestamp': seconds, 'webhook-signature': `v1,${signature}` };
}
