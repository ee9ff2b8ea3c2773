import type { BlobDigest } from './values.ts';

/** Logs, their lines, and the blobs to remove. */

/** A log has the identifier of its record: a build, a fetch, a compile or a deploy. */
export interface LogRow {
  id: bigint;
  project_id: bigint | null;
  size: bigint;
  complete: number;
  /** The packed log, once it is complete. */
  blob: BlobDigest | null;
  /** When it was completed; null while it grows, and when its content was removed. */
  completed_at: bigint | null;
  /** The number of its line breaks. */
  line_breaks: bigint;
  /** The state of the line scan at its end; see streams/line-scan.ts. */
  line_state: string | null;
  /** When its first and its last byte came; null where none came, or the time was not noted. */
  began_at: bigint | null;
  said_at: bigint | null;
}

export interface LogChunkRow {
  log_id: bigint;
  start: bigint;
  bytes: Uint8Array;
}

/** A position in an unpacked log from which its lines can be read. The beginning of the log needs no row. */
export interface LogMarkRow {
  log_id: bigint;
  /** How many line breaks come before it. */
  line_breaks: bigint;
  start: bigint;
  /** When the text there was written, in milliseconds since the log began. */
  at: bigint;
  line_state: string;
}

/** All marks of a packed log; see streams/line-index.ts. */
export interface LogIndexRow {
  log_id: bigint;
  bytes: Uint8Array;
}

/** A deleted record referred to it: it is removed, unless another row refers to it. */
export interface DoomedBlobRow {
  digest: string;
  /** The moment before which it stays; 0 where it may go at once. */
  remove_after: bigint;
  /** The account and the claim for which a runner stored it, if one did, and its size. It counts until it is gone. */
  account_id: bigint | null;
  claim: string | null;
  bytes: bigint;
}
