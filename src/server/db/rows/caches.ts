import type { BlobDigest } from './values.ts';

/** What the passed builds of a suite on a branch left for the next one. */
export interface CacheRow {
  id: bigint;
  project_id: bigint;
  /** null where only the file of the branch has the suite. */
  suite_id: bigint | null;
  suite_name: string;
  /** The variant of the builds; blank without a matrix. */
  variant: string;
  branch: string;
  /** The suite's paths when it was saved, as a JSON list: with other paths it is of no use. */
  paths: string;
  /** The build that saved it, its commit, and what it left, packed. */
  build_id: bigint;
  sha: string;
  digest: BlobDigest;
  size: bigint;
  created_at: bigint;
  last_used_at: bigint;
}

/** What a service held after it was filled. The runner that has it keeps it, and no other. */
export interface ServiceDataRow {
  id: bigint;
  project_id: bigint;
  /** null where only the file of the branch has the suite. */
  suite_id: bigint | null;
  branch: string;
  /** The name of the service. */
  service: string;
  /** What the runner calls it. */
  tree: bigint;
  /** Of everything that it was made of, under a key that only the runner has. */
  made_of: string;
  /** 1 where the build that made it had secrets. */
  has_secrets: number;
  build_id: bigint;
  size: bigint;
  created_at: bigint;
  last_used_at: bigint;
}
