import type { Static } from 'typebox';
import { bytesOfTest, most } from '../domain/bounds.ts';
import { claim, flag, listOf, object, oneOf, optional, textOfBytes, whole } from './schema.ts';

export const testStates = ['passed', 'failed', 'skipped'] as const;

export type TestState = (typeof testStates)[number];

/** In milliseconds. */
const longestDuration = 1_000_000_000_000;
const mostFailures = 1000;
/** In lines. */
const longestFile = 999_999_999;

const testReport = object({
  name: textOfBytes(bytesOfTest.name),
  class: textOfBytes(bytesOfTest.class),
  /** The report's own suite. */
  suite: textOfBytes(bytesOfTest.suite),
  file: textOfBytes(bytesOfTest.file),
  /** Of the file. */
  line: optional(whole(longestFile)),
  state: oneOf(testStates),
  durationMs: whole(longestDuration),
  /** Why it failed or was skipped. */
  message: textOfBytes(bytesOfTest.message),
  /** Failures before it passed, if it was rerun at once. */
  failures: optional(whole(mostFailures)),
});
export type TestReport = Static<typeof testReport>;

export const testBatch = object({
  claim,
  /** The number of the build's tests before it. */
  start: whole(most.tests),
  tests: listOf(most.testsAtOnce, testReport),
  isLast: flag,
});
export type TestBatch = Static<typeof testBatch>;

/** `gone`: no longer wanted. `expected`: the batch was at a wrong position. */
export type TestReceipt = { taken: true } | { gone: true } | { expected: number } | { refused: TestRefusal };

/** `gone`: no longer wanted. */
export type SummaryReceipt = { taken: true } | { gone: true } | { refused: 'disk_full' };

export type TestRefusal = 'too_many' | 'disk_full';
