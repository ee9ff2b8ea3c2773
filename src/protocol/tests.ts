/** A build has at most this many tests, sent in batches. */
export const mostTests = 100_000;

export const mostTestsAtOnce = 500;

/** The longest texts of a test, in bytes of UTF-8, and the most of all texts of a build. */
export const longestTestText = { name: 1024, class: 1024, suite: 1024, file: 1024, message: 8192 } as const;

export const mostTestBytes = 64 * 1024 * 1024;

export const testStates = ['passed', 'failed', 'skipped'] as const;

export type TestState = (typeof testStates)[number];

/** A test in a report. */
export interface TestReport {
  name: string;
  class: string;
  /** The report's own suite. */
  suite: string;
  file: string;
  state: TestState;
  durationMs: number;
  /** Why it failed or was skipped. */
  message: string;
  /** How often it failed before it passed, where it was run again at once. */
  failures?: number;
}

export interface TestBatch {
  claim: string;
  /** How many tests of the build come before it. */
  start: number;
  tests: TestReport[];
  isLast: boolean;
}

/** The answer to a batch: taken, not wanted any more, at a wrong position, or that no more is stored. */
export type TestReceipt = { taken: true } | { gone: true } | { expected: number } | { refused: TestRefusal };

export type TestRefusal = 'too_many' | 'disk_full';
