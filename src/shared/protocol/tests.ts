import type { Static } from 'typebox';
import { bytesOfTest, most } from '../domain/bounds.ts';
import { claim, flag, listOf, object, oneOf, optional, textOfBytes, whole } from './schema.ts';

export const testStates = ['passed', 'failed', 'skipped'] as const;

export type TestState = (typeof testStates)[number];

/** No test takes longer, in milliseconds. */
const longestDuration = 1_000_000_000_000;
/** More often no test is tried. */
const mostFailures = 1000;

/** A test in a report. */
const testReport = object({
  name: textOfBytes(bytesOfTest.name),
  class: textOfBytes(bytesOfTest.class),
  /** The report's own suite. */
  suite: textOfBytes(bytesOfTest.suite),
  file: textOfBytes(bytesOfTest.file),
  state: oneOf(testStates),
  durationMs: whole(longestDuration),
  /** Why it failed or was skipped. */
  message: textOfBytes(bytesOfTest.message),
  /** How often it failed before it passed, where it was run again at once. */
  failures: optional(whole(mostFailures)),
});
export type TestReport = Static<typeof testReport>;

export const testBatch = object({
  claim,
  /** How many tests of the build come before it. */
  start: whole(most.tests),
  tests: listOf(most.testsAtOnce, testReport),
  isLast: flag,
});
export type TestBatch = Static<typeof testBatch>;

/** The answer to a batch: taken, not wanted any more, at a wrong position, or that no more is stored. */
export type TestReceipt = { taken: true } | { gone: true } | { expected: number } | { refused: TestRefusal };

export type TestRefusal = 'too_many' | 'disk_full';
