import assert from 'node:assert/strict';
import { test } from 'node:test';
import { wayToStop } from '../../../src/cli/operator/stopping.ts';
import { readConfig } from '../../../src/shared/config.ts';

test('what is stopped under a service manager leaves its builds running, unless it is told otherwise', () => {
  const way = (env: Record<string, string>, isAtTerminal = false): string =>
    wayToStop(readConfig({ flags: { data_dir: '/nowhere' }, env: onlySettings(env) }), env, isAtTerminal);
  assert.equal(way({}), 'break');
  assert.equal(way({ INVOCATION_ID: '0f' }), 'leave');
  assert.equal(way({ NOTIFY_SOCKET: '/run/systemd/notify' }), 'leave');
  assert.equal(way({ INVOCATION_ID: '0f' }, true), 'break', 'a terminal on a desktop has it from the desktop');
  for (const stop of ['leave', 'drain', 'break']) {
    assert.equal(way({ INVOCATION_ID: '0f', HEADRACE_STOP: stop }), stop);
    assert.equal(way({ HEADRACE_STOP: stop }), stop);
  }
  assert.throws(() => way({ HEADRACE_STOP: 'now' }), /HEADRACE_STOP must be one of leave, drain, break/);
});

function onlySettings(env: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(env).filter(([name]) => name.startsWith('HEADRACE')));
}
