import { hash } from 'node:crypto';
import { promisify } from 'node:util';
import { zstdCompress, zstdDecompress } from 'node:zlib';
import type { TestResultRow } from '../db/schema.ts';
import type { testStates } from '../../shared/records/states.ts';

/**
 * A row per test would be by far the largest table. A row's tests have the same state, so failed tests can be read
 * without the rest.
 */
const compress = promisify(zstdCompress);
const decompress = promisify(zstdDecompress);

export type TestState = (typeof testStates)[number];

export interface TestName {
  name: string;
  class: string;
  suite: string;
}

export interface Test extends TestName {
  file: string;
  /** Of the file, if the report has it. */
  line?: number;
  state: TestState;
  durationMs: number;
  message: string;
  /** How often it failed before it passed, if the test program retried it at once. */
  failures?: number;
}

export interface PlacedTest extends Test {
  at: number;
}

/** Tests that passed after failing are stored separately, so that a query can find them. */
export type StoredState = TestState | 'retried';

export const storedAs: Record<TestState, StoredState[]> = {
  passed: ['passed', 'retried'],
  failed: ['failed'],
  skipped: ['skipped'],
};

export type PackedTests = Omit<TestResultRow, 'build_id'>;

type Packed = [
  at: number,
  name: string,
  of: string,
  suite: string,
  file: string,
  durationMs: number,
  message: string,
  failures: number,
  line?: number,
];

export async function packTests(start: number, tests: readonly Test[]): Promise<PackedTests[]> {
  const placed = tests.map((test, at) => ({ ...test, at: start + at }));
  const groups = Map.groupBy(placed, storedState);
  return Promise.all(
    Array.from(groups, async ([state, some]) => ({
      start,
      state,
      count: some.length,
      keys: Buffer.concat(some.map(digestOf)),
      content: await compress(JSON.stringify(some.map(packed))),
    })),
  );
}

export async function unpackTests({ state, content }: Pick<TestResultRow, 'state' | 'content'>): Promise<PlacedTest[]> {
  const list = JSON.parse((await decompress(content)).toString()) as Packed[];
  const shown = state === 'retried' ? 'passed' : (state as TestState);
  return list.map(([at, name, of, suite, file, durationMs, message, failures, line]) => ({
    at,
    name,
    class: of,
    suite,
    file,
    state: shown,
    durationMs,
    message,
    ...(failures > 0 && { failures }),
    ...(line !== undefined && { line }),
  }));
}

function storedState({ state, failures = 0 }: Test): StoredState {
  return state === 'passed' && failures > 0 ? 'retried' : state;
}

function packed({ at, name, class: of, suite, file, durationMs, message, failures = 0, line }: PlacedTest): Packed {
  const test = [at, name, of, suite, file, durationMs, message, failures] as const;
  return line === undefined ? [...test] : [...test, line];
}

/** Enough to distinguish a hundred thousand tests, and exact as a JavaScript number. */
const keySize = 6;

function digestOf({ name, class: of, suite }: TestName): Buffer {
  return hash('sha256', JSON.stringify([suite, of, name]), 'buffer').subarray(0, keySize);
}

export function keyOf(test: TestName): number {
  return digestOf(test).readUIntBE(0, keySize);
}

/** The same as text, in hexadecimal digits. */
export function keyText(test: TestName): string {
  return digestOf(test).toString('hex');
}

export function* keysIn(keys: Uint8Array): Generator<number> {
  const bytes = Buffer.from(keys.buffer, keys.byteOffset, keys.byteLength);
  for (let at = 0; at + keySize <= bytes.length; at += keySize) yield bytes.readUIntBE(at, keySize);
}
