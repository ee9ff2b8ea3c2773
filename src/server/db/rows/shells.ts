import type { BlobDigest, Sealed } from './values.ts';

/** The files of a build, which a runner keeps for a shell, or for other suites to begin with. */
export interface KeptBuildRow {
  /** The build's. */
  id: bigint;
  project_id: bigint;
  /** The folder of a runner that has them, by the random name that it gave itself; and the holder of the build's claim. */
  location: string;
  holder: string;
  /** What the runner calls them. */
  name: string;
  /** Opens what the runner knows about the build. */
  key: Sealed;
  /** Until when a shell can be opened in them; 0 where none can. */
  expires_at: bigint;
  /** Whether other suites begin with them. */
  for_suites: number;
  /** Since when nothing of the build's request can need them. */
  free_since: bigint | null;
  /** All of them as a blob, and its size, once another runner needed them; and whether that is possible. */
  digest: BlobDigest | null;
  size: bigint | null;
  packable: number;
}

/** A shell that somebody opened in the files of a failed build. */
export interface ShellRow {
  id: bigint;
  project_id: bigint;
  build_id: bigint;
  /** Who opened it, and how they proved who they are. */
  account_id: bigint;
  via: string;
  location: string;
  /** `waiting` for its runner, `open`, or `ended`. */
  state: string;
  /** Why it ended, in one word. */
  reason: string;
  created_at: bigint;
  expires_at: bigint;
  /** When the person's side and the runner's were last heard of. */
  client_seen_at: bigint;
  runner_seen_at: bigint;
}
