import type { BlobDigest } from './values.ts';

export interface CacheRow {
  id: bigint;
  project_id: bigint;
  /** null if the suite is only in the branch's file. */
  suite_id: bigint | null;
  suite_name: string;
  variant: string;
  branch: string;
  /** The suite's paths when the cache was saved, as a JSON list. With other paths the cache is useless. */
  paths: string;
  build_id: bigint;
  sha: string;
  digest: BlobDigest;
  size: bigint;
  created_at: bigint;
  last_used_at: bigint;
}

/** Data of a service. Only the runner that made the data has it. */
export interface ServiceDataRow {
  id: bigint;
  project_id: bigint;
  /** null if the suite is only in the branch's file. */
  suite_id: bigint | null;
  branch: string;
  service: string;
  tree: bigint;
  /** Digest of all its inputs, under a key that only the runner has. */
  made_of: string;
  has_secrets: number;
  build_id: bigint;
  size: bigint;
  created_at: bigint;
  last_used_at: bigint;
}
