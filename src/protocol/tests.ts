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
