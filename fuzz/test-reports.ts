import assert from 'node:assert/strict';
import * as fc from 'fast-check';
import { most } from '../src/shared/domain/bounds.ts';
import { readCall } from '../src/server/dispatch/read-message.ts';
import { createMask } from '../src/shared/domain/masking.ts';
import type { TestReport } from '../src/shared/protocol/index.ts';
import { createReportDecoder } from '../src/shared/junit/decoding.ts';
import { createJunitReader } from '../src/shared/junit/reader.ts';
import { UnreadableReportError } from '../src/shared/junit/unreadable.ts';
import { pure } from './target.ts';

const secret = 'correct-horse-battery';
const names = [
  'testsuites',
  'testsuite',
  'testcase',
  'failure',
  'error',
  'skipped',
  'flakyFailure',
  'stackTrace',
  'x:y',
];
const text = fc.oneof(
  fc.constantFrom(
    'a',
    secret,
    secret.slice(0, 9),
    secret.slice(9),
    '&lt;',
    '&amp;',
    '&#0;',
    '&#x1F600;',
    '&nbsp;',
    '&x;',
  ),
  fc.string({ unit: 'binary', maxLength: 8 }),
  fc.constantFrom('é'.repeat(600), 'x'.repeat(8190), '\u0000', '\u001b[31m', ']]>', '<![CDATA[', '<!--', '-->'),
);
const attribute = fc
  .tuple(
    fc.constantFrom('name', 'classname', 'class', 'file', 'time', 'message'),
    fc.oneof(text, fc.constantFrom('1,5', '1e9')),
  )
  .map(([name, value]) => ` ${name}="${value}"`);
const tag = fc
  .tuple(fc.constantFrom(...names), fc.array(attribute, { maxLength: 4 }), fc.constantFrom('>', '/>', ''))
  .map(([name, attributes, end]) => `<${name}${attributes.join('')}${end}`);
const piece = fc.oneof(
  { weight: 4, arbitrary: tag },
  { weight: 3, arbitrary: fc.constantFrom(...names).map((name) => `</${name}>`) },
  { weight: 2, arbitrary: text },
  {
    weight: 1,
    arbitrary: fc.constantFrom('<!DOCTYPE a [<!ENTITY x "y">]>', '<?xml version="1.0" encoding="latin1"?>', '\uFEFF'),
  },
);
const report = fc.oneof(
  fc.array(piece, { maxLength: 12 }).map((pieces) => Buffer.from(`<testsuite><testcase>${pieces.join('')}`)),
  fc.array(piece, { maxLength: 12 }).map((pieces) => Buffer.from(pieces.join(''))),
  fc.uint8Array({ maxLength: 40 }).map((bytes) => Buffer.from(bytes)),
);

function read(bytes: Buffer, size: number): { tests: TestReport[]; isWhole: boolean } {
  const tests: TestReport[] = [];
  const decoder = createReportDecoder();
  const reader = createJunitReader(createMask([secret]), (test) => tests.push(test));
  try {
    for (let at = 0; at < bytes.length; at += size) reader.write(decoder.write(bytes.subarray(at, at + size)));
    reader.write(decoder.end());
    reader.end();
    return { tests, isWhole: true };
  } catch (error) {
    if (!(error instanceof UnreadableReportError)) throw error;
    return { tests, isWhole: false };
  }
}

/** Whatever a report is: its tests are such that the server takes them, without secrets, and however it was cut. */
export const testReports = pure(
  'test-reports',
  300,
  fc.property(report, fc.integer({ min: 1, max: 64 }), (bytes, size) => {
    const whole = read(bytes, bytes.length + 1);
    assert.deepEqual(read(bytes, size), whole);
    assert.ok(!JSON.stringify(whole.tests).includes(secret));
    const batch = { claim: 'c'.repeat(16), start: 0, tests: whole.tests.slice(0, most.testsAtOnce), isLast: true };
    assert.deepEqual(readCall('tests', JSON.parse(JSON.stringify(batch))), batch);
  }),
);
