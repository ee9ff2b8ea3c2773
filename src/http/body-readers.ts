import type { IncomingMessage } from 'node:http';
import { parseForm } from './bodies.ts';
import { unreadable, type RawGroup } from './raw.ts';
import { arriving } from './uploads.ts';

/** Body readers for routes outside the envelope: each takes one content type, up to a length. */
type Reader<Body> = (request: IncomingMessage) => Promise<Body>;

/** The unchanged bytes, for checking a signature over them. */
export function bytes(limit: number): Reader<Buffer> {
  return async (request) => {
    if (Number(request.headers['content-length'] ?? 0) > limit) throw unreadable();
    const pieces: Buffer[] = [];
    let size = 0;
    for await (const piece of arriving(request)) {
      size += piece.length;
      if (size > limit) throw unreadable();
      pieces.push(piece);
    }
    return Buffer.concat(pieces, size);
  };
}

export function json(limit: number): Reader<unknown> {
  const read = bytes(limit);
  return async (request) => {
    demandType(request, 'application/json');
    const text = (await read(request)).toString();
    try {
      return JSON.parse(text);
    } catch {
      throw unreadable();
    }
  };
}

export function form(limit: number): Reader<RawGroup> {
  const read = bytes(limit);
  return async (request) => {
    demandType(request, 'application/x-www-form-urlencoded');
    return parseForm((await read(request)).toString());
  };
}

/** A body of another type is refused; a missing body is accepted. */
function demandType({ headers }: IncomingMessage, type: string): void {
  const isEmpty = headers['transfer-encoding'] === undefined && Number(headers['content-length'] ?? 0) === 0;
  if (isEmpty && headers['content-type'] === undefined) return;
  const [sent = ''] = (headers['content-type'] ?? '').split(';', 1);
  if (sent.trim().toLowerCase() !== type) throw unreadable();
}
