import type { BlobDigest } from './values.ts';

export interface ArtifactRow {
  id: bigint;
  build_id: bigint;
  path: string;
  size: bigint;
  sha256: BlobDigest;
  content_type: string;
  created_at: bigint;
}

/** A runner's right to upload a build's files after the build is over. */
export interface UploadRow {
  /** The build's id. */
  id: bigint;
  claim: string;
  holder: string;
  account_id: bigint;
  stored_blob: BlobDigest | null;
  stored_bytes: bigint | null;
  created_at: bigint;
}

export interface BuildSummaryRow {
  build_id: bigint;
  markdown: string;
}
