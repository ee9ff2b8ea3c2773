import type { BlobDigest } from './values.ts';

/** Logs, their lines, and the blobs that are to go. */

/** The log of a build, a fetch, a compile or a deploy has that record's identifier. */
export interface LogRow {
  id: bigint;
  project_id: bigint | null;
  size: bigint;
  complete: number;
  /** Where it lies once it is complete and packed. */
  blob: BlobDigest | null;
  /** When it was completed; null while more is to come, and once what it said is gone. */
  completed_at: bigint | null;
  /** How many line breaks are in it. null where nobody counted: in logs from before they were counted. */
  line_breaks: bigint | null;
  /** How its lines stand where it ends now; see lib/line-scan.ts. */
  line_state: string | null;
  /** When its first byte came, and when its last one did; null where nothing came, or nobody looked at the clock. */
  began_at: bigint | null;
  said_at: bigint | null;
}

export interface LogChunkRow {
  log_id: bigint;
  start: bigint;
  bytes: Uint8Array;
}

/** A place in a log that is not packed, from which its lines can be read. Its beginning is one without being here. */
export interface LogMarkRow {
  log_id: bigint;
  /** How many line breaks are before it. */
  line_breaks: bigint;
  start: bigint;
  /** When what is there was said, in milliseconds since the log began. */
  at: bigint;
  line_state: string;
}

/** All marks of a log that is packed; see streams/line-index.ts. */
export interface LogIndexRow {
  log_id: bigint;
  bytes: Uint8Array;
}

/** Referred to by what was deleted: it goes, unless something else refers to it. */
export interface DoomedBlobRow {
  digest: string;
}
