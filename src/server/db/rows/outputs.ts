import type { BlobDigest } from './values.ts';

/** What builds leave. */

/** A file that a build left and its suite keeps. The bytes are the blob that `sha256` names. */
export interface ArtifactRow {
  id: bigint;
  build_id: bigint;
  /** Its path below the workspace. */
  path: string;
  size: bigint;
  sha256: BlobDigest;
  /** The checksum that archives carry, so that one can be sent without reading a file twice. */
  content_type: string;
  created_at: bigint;
}

/** The right of a runner to bring what a build left, after the build is over. */
export interface UploadRow {
  /** The build's. */
  id: bigint;
  /** The claim under which the build was done, and its holder. */
  claim: string;
  holder: string;
  account_id: bigint;
  /** The blob that was stored under it, and its size as the server counted it. */
  stored_blob: BlobDigest | null;
  stored_bytes: bigint | null;
  created_at: bigint;
}
