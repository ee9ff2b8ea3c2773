import { bytesOfTest, most } from '../lib/bounds.ts';
import { ApiError } from '../errors.ts';
import { testStates, type TestBatch, type TestReport, type TestState } from '../protocol/index.ts';
import { readClaim } from './messages.ts';

/** Reads batches of tests as strictly as the other messages of runners: an attacker may have taken the runner over. */

/** No test takes longer, in milliseconds. */
const longestDuration = 1_000_000_000_000;
/** More often no test is tried. */
const mostFailures = 1000;

export function readTests(body: unknown): TestBatch {
  const batch = body as Record<string, unknown>;
  const claim = readClaim(body);
  const { tests } = batch;
  if (!Array.isArray(tests) || tests.length > most.testsAtOnce) throw refused('tests');
  if (typeof batch.isLast !== 'boolean') throw refused('isLast');
  return { claim, start: whole(batch.start, most.tests, 'start'), tests: tests.map(readTest), isLast: batch.isLast };
}

function readTest(value: unknown): TestReport {
  if (typeof value !== 'object' || value === null) throw refused('tests');
  const test = value as Record<string, unknown>;
  const failures = test.failures === undefined ? 0 : whole(test.failures, mostFailures, 'tests[failures]');
  return {
    name: text(test, 'name'),
    class: text(test, 'class'),
    suite: text(test, 'suite'),
    file: text(test, 'file'),
    state: readState(test.state),
    durationMs: whole(test.durationMs, longestDuration, 'tests[durationMs]'),
    message: text(test, 'message'),
    ...(failures > 0 && { failures }),
  };
}

function readState(value: unknown): TestState {
  const state = testStates.find((one) => one === value);
  if (state === undefined) throw refused('tests[state]');
  return state;
}

/** Text that either database can store, and that is not longer than what a runner sends. */
function text(test: Record<string, unknown>, field: keyof typeof bytesOfTest): string {
  const { [field]: value } = test;
  const room = bytesOfTest[field];
  const isFit = typeof value === 'string' && value.length <= room && !value.includes('\0') && value.isWellFormed();
  if (!isFit || Buffer.byteLength(value) > room) throw refused(`tests[${field}]`);
  return value;
}

function whole(value: unknown, largest: number, name: string): number {
  if (!Number.isSafeInteger(value) || (value as number) < 0 || (value as number) > largest) throw refused(name);
  return value as number;
}

function refused(name: string): ApiError {
  return new ApiError('invalid_format', name);
}
