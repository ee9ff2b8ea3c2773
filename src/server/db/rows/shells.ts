import type { BlobDigest, Sealed } from './values.ts';

/** Kept by a runner for a shell, or for other suites to begin with. */
export interface KeptBuildRow {
  /** The build's id. */
  id: bigint;
  project_id: bigint;
  /** The runner's folder, by the random name that it gave itself, and the holder of the build's claim. */
  location: string;
  holder: string;
  name: string;
  /** Opens what the runner knows about the build. */
  key: Sealed;
  /** Until when a shell can be opened in them; 0 if none can. */
  expires_at: bigint;
  for_suites: number;
  /** Since when nothing of the build's request can need them. */
  free_since: bigint | null;
  /** All of them as a blob, once another runner needed them. */
  digest: BlobDigest | null;
  size: bigint | null;
  packable: number;
}

export interface ShellRow {
  id: bigint;
  project_id: bigint;
  build_id: bigint;
  account_id: bigint;
  via: string;
  location: string;
  /** `waiting` for its runner, `open`, or `ended`. */
  state: string;
  reason: string;
  created_at: bigint;
  expires_at: bigint;
  client_seen_at: bigint;
  runner_seen_at: bigint;
}
