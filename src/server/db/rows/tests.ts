export interface TestRunRow {
  build_id: bigint;
  project_id: bigint;
  suite_name: string;
  commit_id: bigint;
  size: number;
  bytes: bigint;
  passed: number;
  failed: number;
  skipped: number;
  slowest: string;
  completed_at: bigint | null;
}

/** Tests with the same state, packed. */
export interface TestResultRow {
  build_id: bigint;
  /** The number of the build's tests before the batch with these tests. */
  start: number;
  /** `passed`, `failed`, `skipped`, or `retried` for tests that passed after failing. */
  state: string;
  count: number;
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
  message: string;
  failed_build_id: bigint;
  began_at: bigint;
  last_seen_at: bigint;
}
