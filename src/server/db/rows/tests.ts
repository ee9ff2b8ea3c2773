/** The tests that builds reported. */

/** The tests of one build, all together. */
export interface TestRunRow {
  build_id: bigint;
  project_id: bigint;
  suite_name: string;
  commit_id: bigint;
  /** How many tests there are, and how many bytes their texts have. */
  size: number;
  bytes: bigint;
  passed: number;
  failed: number;
  skipped: number;
  /** The slowest tests, as JSON (results/slow-tests.ts). */
  slowest: string;
  /** When the last test came; null until then. */
  completed_at: bigint | null;
}

/** Some tests of a build that have the same state, packed. */
export interface TestResultRow {
  build_id: bigint;
  /** How many tests of the build come before the batch that these were sent with. */
  start: number;
  /** `passed`, `failed` or `skipped`; or `retried`, of those that passed after they had failed. */
  state: string;
  count: number;
  /** A short digest of each test's name, in the same order. */
  keys: Uint8Array;
  content: Uint8Array;
}

/** A test that both failed and passed on one commit, in one suite and variant. */
export interface TestFlakeRow {
  project_id: bigint;
  suite_name: string;
  commit_id: bigint;
  variant: string;
  test_key: bigint;
  name: string;
  class: string;
  suite: string;
  failures: number;
  passes: number;
  /** Why it failed last, and in which build. */
  message: string;
  failed_build_id: bigint;
  /** When it was first seen to do so on this commit, and when a build last ran it there. */
  began_at: bigint;
  last_seen_at: bigint;
}
