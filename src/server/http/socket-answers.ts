import { randomUUID } from 'node:crypto';
import { ApiError } from '../../shared/errors.ts';
import { http } from '../../shared/lib/http.ts';

/** There is no parsed request here, but the response has the API's form. */

export function unreadableRequest(code: string, headers: Record<string, string> = {}): string {
  const { status, body } = faults[code] ?? notHttp;
  return bareAnswer(status, body, headers);
}

export function stoppedComing(): string {
  return bareAnswer(408, new ApiError('invalid_format').body);
}

/** The response to a proxy if there is no room for its connection. */
export function noRoom(): string {
  return bareAnswer(503, { error: { generic: [] } }, { 'retry-after': '1' });
}

/** The bytes are not HTTP, or the method is unknown. */
const notHttp = new ApiError('api_does_not_exists');
const badLength = ApiError.ofHttp(400, 'invalid_format', 'content_length');
const badHeader = ApiError.ofHttp(400, 'invalid_format', 'header');
const badEncoding = ApiError.ofHttp(400, 'invalid_format', 'transfer_encoding');
const badBody = new ApiError('invalid_format');

const faults: Record<string, ApiError> = {
  HPE_INVALID_CONTENT_LENGTH: badLength,
  HPE_UNEXPECTED_CONTENT_LENGTH: badLength,
  HPE_INVALID_TRANSFER_ENCODING: badEncoding,
  HPE_HEADER_OVERFLOW: ApiError.ofHttp(431, 'invalid_format', 'header'),
  HPE_INVALID_HEADER_TOKEN: badHeader,
  HPE_UNEXPECTED_SPACE: badHeader,
  HPE_LF_EXPECTED: badHeader,
  HPE_CR_EXPECTED: badHeader,
  HPE_INVALID_CHUNK_SIZE: badBody,
  HPE_STRICT: badBody,
  HPE_CHUNK_EXTENSIONS_OVERFLOW: badBody,
};

function bareAnswer(status: number, content: object, headers: Record<string, string> = {}): string {
  const body = JSON.stringify(content);
  return [
    `HTTP/1.1 ${status} ${http.STATUS_CODES[status]}`,
    'content-type: application/json; charset=utf-8',
    `content-length: ${Buffer.byteLength(body)}`,
    `x-request-id: ${randomUUID()}`,
    'x-content-type-options: nosniff',
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
    'connection: close',
    '',
    body,
  ].join('\r\n');
}
