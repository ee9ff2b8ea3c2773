import type { BlobDigest, Sealed } from './values.ts';

/** Files of a build that its runner retains, for a shell or for other suites that begin with them. */
export interface KeptBuildRow {
  /** The build's id. */
  id: bigint;
  project_id: bigint;
  /** The runner's folder, by a random name that the runner chose, and the holder of the build's claim. */
  location: string;
  holder: string;
  name: string;
  /** Opens what the runner knows about the build. */
  key: Sealed;
  /** Until when a shell can be opened in the files. 0 if none can. */
  expires_at: bigint;
  for_suites: number;
  /** Since when nothing in the build's request can need the files. */
  free_since: bigint | null;
  /** All files as one blob, once another runner needed them. */
  digest: BlobDigest | null;
  size: bigint | null;
  packable: number;
}

/** What the steps of a running build left, for its next attempt if the runner is lost. The last such point of the build. */
export interface StepPointRow {
  /** The build's id. */
  id: bigint;
  project_id: bigint;
  /** The name of the files on runners. Each point has another one. */
  tree: bigint;
  digest: BlobDigest;
  size: bigint;
  /** The name of the step that comes next. */
  step: string;
  /** The states of the steps, and what the runner knows, with the added variables. */
  facts: Sealed;
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
  /** Whether it has variables that are limited to refs. */
  sees_limited: number;
}
