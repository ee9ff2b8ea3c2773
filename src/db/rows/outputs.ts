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
  crc32: bigint;
  content_type: string;
  created_at: bigint;
}
