import { readUntrustedObject } from '../lib/untrusted-json.ts';
import type { CallName } from './calls.ts';

export const connectionPath = '/runner/connection';
/** The shell's identifier follows. Each shell has its own WebSocket for packets (domain/shell-stream.ts). */
export const shellPath = '/runner/shells/';

export interface ToServer {
  id: number;
  call: CallName;
  bytes?: Uint8Array;
}

/** An answer, the command to end, or a refusal with its status and in the form of the API. */
export type ToRunner = { id: number } & (
  | { answer?: unknown; bytes?: Buffer }
  | { end: true }
  | { status: number; error: object }
);

/** Codes with which a server closes a connection. */
export const closing = { tokenEnded: 4401, elsewhere: 4503 } as const;

/** JSON text, or with bytes a binary message: a line of JSON and the bytes. */
export function encodeMessage(message: ToServer | ToRunner): string | Buffer {
  const { bytes, ...head } = message as { bytes?: Uint8Array };
  const text = JSON.stringify(head);
  return bytes === undefined ? text : Buffer.concat([Buffer.from(`${text}\n`), bytes]);
}

/** Throws if the data are not a message. A runner may be hostile, so the JSON is limited. */
export function decodeMessage(data: Buffer, isBinary: boolean): Record<string, unknown> {
  const end = isBinary ? data.indexOf(0x0a) : data.length;
  const { bytes: _, ...fields } = readUntrustedObject(data.toString('utf8', 0, end === -1 ? 0 : end));
  return isBinary ? { ...fields, bytes: data.subarray(end + 1) } : fields;
}
