import { readUntrustedObject } from '../lib/untrusted-json.ts';
import type { CallName } from './calls.ts';

/** Where a runner opens its connection. */
export const connectionPath = '/runner/connection';

/** A message to the server: what is said with the call is beside its name. */
export interface ToServer {
  id: number;
  call: CallName;
  bytes?: Uint8Array;
}

/**
 * A message to a runner: the answer to a call, that the runner is to end, or why there is no answer, with the status and in
 * the form of the API.
 */
export type ToRunner = { id: number } & (
  | { answer?: unknown; bytes?: Buffer }
  | { end: true }
  | { status: number; error: object }
);

/** Why a server closes a connection, other than that it closes itself. */
export const closing = { tokenEnded: 4401, elsewhere: 4503 } as const;

/** A message is a text in JSON, or, where it has bytes, binary: a line of JSON and the bytes. */
export function encodeMessage(message: ToServer | ToRunner): string | Buffer {
  const { bytes, ...head } = message as { bytes?: Uint8Array };
  const text = JSON.stringify(head);
  return bytes === undefined ? text : Buffer.concat([Buffer.from(`${text}\n`), bytes]);
}

/** Throws if it is none. A runner may be hostile, so the JSON is limited. */
export function decodeMessage(data: Buffer, isBinary: boolean): Record<string, unknown> {
  const end = isBinary ? data.indexOf(0x0a) : data.length;
  const { bytes: _, ...fields } = readUntrustedObject(data.toString('utf8', 0, end === -1 ? 0 : end));
  return isBinary ? { ...fields, bytes: data.subarray(end + 1) } : fields;
}
