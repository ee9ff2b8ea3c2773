import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readCall } from '../../../src/server/dispatch/read-message.ts';
import { longest } from '../../../src/shared/domain/bounds.ts';
import type { CallName } from '../../../src/shared/protocol/index.ts';
import { aCommit } from '../../support/runner.ts';

const claim = 'c'.repeat(22);
const finish = (outcome: object) => ({ claim, logSize: 0, outcome });
const refused = (field: string) => ({ name: 'ApiError', fields: { [field]: ['invalid_format'] } });
const assertRefused = (call: CallName, message: unknown, field: string): void =>
  assert.throws(() => readCall(call, message), refused(field), JSON.stringify(message).slice(0, 200));

test('a message of a runner has every identifier that a database has, and no other', () => {
  const projects = ['1', String(2n ** 62n), String(2n ** 63n - 1n)];
  assert.deepEqual(readCall('gone', { projects }), { projects });
  for (const odd of ['', '0', '01', '-1', '1.5', '1e3', String(2n ** 63n), '9'.repeat(30), 1, null])
    assertRefused('gone', { projects: [odd] }, 'projects');
});

test('a message of a runner has no text that a database would store as another one', () => {
  for (const odd of ['a\0', '\ud800', 'a\udc00b']) {
    assertRefused('finish', finish({ kind: 'fetched', commit: { ...aCommit, ref: odd } }), 'outcome[commit][ref]');
    assertRefused('finish', finish({ kind: 'fetched', commit: { ...aCommit, tags: [odd] } }), 'outcome[commit][tags]');
  }
});

test('words of a runner are cut and mended, and not refused', () => {
  const message = `${'x'.repeat(longest.runnerWords - 1)}\u{1f6b0} and more`;
  const { outcome } = readCall('finish', finish({ kind: 'lost', message }));
  assert.deepEqual(outcome, { kind: 'lost', message: `${'x'.repeat(longest.runnerWords - 1)}\ufffd` });
});

test('one of several forms is chosen by its kind, or by its first field', () => {
  const config = { problem: 'no', text: 'x', path: 'ci.toml', before: null };
  assert.deepEqual(readCall('finish', finish({ kind: 'fetched', commit: aCommit, config })), {
    ...finish({ kind: 'fetched', commit: aCommit, config: { problem: 'no', path: 'ci.toml', before: null } }),
  });
  assertRefused(
    'finish',
    finish({ kind: 'fetched', commit: aCommit, config: { path: 'ci.toml', before: null } }),
    'outcome[config][isAbsent]',
  );
  assertRefused('finish', finish({ kind: 'hasOwnProperty' }), 'outcome[kind]');
  const look = (seen: unknown) => ({ reports: [{ projectId: '1', claim, seen }] });
  assert.deepEqual(readCall('polled', look({ unchanged: true, more: 1 })), look({ unchanged: true }));
  assertRefused('polled', look({}), 'reports[seen][failed]');
  assertRefused('polled', look([]), 'reports[seen]');
});
