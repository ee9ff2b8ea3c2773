import type { BlobDigest } from './values.ts';

/** A log has the id of its record: a build, a fetch, a compile or a deploy. */
export interface LogRow {
  id: bigint;
  project_id: bigint | null;
  size: bigint;
  complete: number;
  blob: BlobDigest | null;
  /** null while it grows, and after its content was removed. */
  completed_at: bigint | null;
  line_breaks: bigint;
  line_state: string | null;
  /** When its first and last byte arrived. null if none arrived or the time was not recorded. */
  began_at: bigint | null;
  said_at: bigint | null;
}

export interface LogChunkRow {
  log_id: bigint;
  start: bigint;
  bytes: Uint8Array;
}

/** Lines of an unpacked log can be read from this position. The start of the log needs no row. */
export interface LogMarkRow {
  log_id: bigint;
  line_breaks: bigint;
  start: bigint;
  /** When the text at this position was written, in milliseconds since the log began. */
  at: bigint;
  line_state: string;
}

export interface LogIndexRow {
  log_id: bigint;
  bytes: Uint8Array;
  /** JSON (streams/outline.ts). Blank if unknown. */
  outline: string;
  /** JSON (streams/annotations.ts). Blank if unknown. */
  annotations: string;
  /** See streams/log-filter.ts. null if unknown. */
  filter: Uint8Array | null;
  /** See streams/line-hashes.ts. null if unknown. */
  line_hashes: Uint8Array | null;
}

/** A blob that lost a reference; removed unless another row refers to it. */
export interface DoomedBlobRow {
  digest: string;
  /** The blob stays until then. 0 if it may be removed at once. */
  remove_after: bigint;
  /**
   * The account and claim for which a runner stored the blob, if one did. Its bytes count for them
   * until it is removed.
   */
  account_id: bigint | null;
  claim: string | null;
  bytes: bigint;
}
