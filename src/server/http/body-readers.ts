import type { IncomingMessage } from 'node:http';
import { parseForm } from './bodies.ts';
import { unreadable, type RawGroup } from '../../shared/records/raw.ts';
import { arriving } from './uploads.ts';

export function form(limit: number): (request: IncomingMessage) => Promise<RawGroup> {
  return async (request) => {
    demandForm(request);
    if (Number(request.headers['content-length'] ?? 0) > limit) throw unreadable();
    const pieces: Buffer[] = [];
    let size = 0;
    for await (const piece of arriving(request)) {
      size += piece.length;
      if (size > limit) throw unreadable();
      pieces.push(piece);
    }
    return parseForm(Buffer.concat(pieces, size).toString());
  };
}

/** A body of another type is refused, a missing body is accepted. */
function demandForm({ headers }: IncomingMessage): void {
  const isEmpty = headers['transfer-encoding'] === undefined && Number(headers['content-length'] ?? 0) === 0;
  if (isEmpty && headers['content-type'] === undefined) return;
  const [sent = ''] = (headers['content-type'] ?? '').split(';', 1);
  if (sent.trim().toLowerCase() !== 'application/x-www-form-urlencoded') throw unreadable();
}
