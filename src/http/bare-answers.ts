import { randomUUID } from 'node:crypto';
import { ApiError } from '../errors.ts';

/** Answers to what did not get as far as being a request, in the API's form all the same. */

/** To bytes that are not HTTP. */
export function unreadableRequest(headers: Record<string, string> = {}): string {
  return bareAnswer('400 Bad Request', new ApiError('api_does_not_exists').body, headers);
}

/** To a proxy that has more to pass on than there is room for. */
export function noRoom(): string {
  return bareAnswer('503 Service Unavailable', { error: { generic: [] } }, { 'retry-after': '1' });
}

function bareAnswer(status: string, content: object, headers: Record<string, string>): string {
  const body = JSON.stringify(content);
  return [
    `HTTP/1.1 ${status}`,
    'content-type: application/json; charset=utf-8',
    `content-length: ${Buffer.byteLength(body)}`,
    `x-request-id: ${randomUUID()}`,
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
    'connection: close',
    '',
    body,
  ].join('\r\n');
}
