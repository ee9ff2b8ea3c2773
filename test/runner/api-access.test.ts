import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { openApiAccess } from '../../src/runner/api-access.ts';
import type { RunnerDeps } from '../../src/runner/job-runner.ts';
import { temporaryFolder } from '../support/folders.ts';

const deps = (more: Partial<RunnerDeps> = {}) =>
  ({ scratch: temporaryFolder(), sandboxes: { hasOwnNetwork: true, isIsolated: true }, ...more }) as RunnerDeps;
const listens = { host: '127.0.0.1', port: 8443 };

test('a build calls the server at its public address, which leads to where it listens', async () => {
  const order = { url: 'https://ci.example.org', listens, certificate: 'of the server' };
  await using api = await openApiAccess(deps(), order);
  assert.deepEqual(api.environment, {
    HEADRACE_URL: 'https://ci.example.org',
    HEADRACE_CA_FILE: '/run/headrace/ca.pem',
  });
  assert.deepEqual(api.door, { address: '127.72.0.1', port: 443, to: listens });
  assert.equal(api.hosts, '127.72.0.1 ci.example.org\n');
  const [folder = ''] = api.mounts[0]?.layers ?? [];
  assert.equal(readFileSync(`${folder}/ca.pem`, 'utf8'), 'of the server');
  assert.match(
    readFileSync(api.hostsFile[0]?.file ?? '', 'utf8'),
    /^127\.0\.0\.1 localhost build\n.*\n127\.72\.0\.1 ci/,
  );
});

test('an address is the door’s own', async () => {
  for (const [url, address, port] of [
    ['https://127.0.0.1:8443', '127.0.0.1', 8443],
    ['https://localhost:8443', '127.0.0.1', 8443],
    ['https://10.1.2.3', '10.1.2.3', 443],
  ] as const) {
    await using api = await openApiAccess(deps(), { url, listens });
    assert.deepEqual(api.door, { address, port, to: listens });
    assert.deepEqual([api.hosts, api.hostsFile, api.environment], ['', [], { HEADRACE_URL: url }]);
  }
  await using api = await openApiAccess(deps(), { url: 'https://[fd00::1]:8443', listens });
  assert.equal(api.door, undefined);
});

test('a remote runner’s builds call the server where the runner does', async () => {
  const server = { url: 'https://headrace.internal:9443/', ca: 'of the operator' };
  await using api = await openApiAccess(deps({ server }), { url: 'https://ci.example.org', listens, certificate: 'x' });
  assert.equal(api.environment['HEADRACE_URL'], 'https://headrace.internal:9443');
  assert.deepEqual(api.door?.to, { host: 'headrace.internal', port: 9443 });
  assert.equal(readFileSync(`${api.mounts[0]?.layers?.[0]}/ca.pem`, 'utf8'), 'of the operator');
});

test('without isolation a build sees the files of the machine', async () => {
  const sandboxes = { hasOwnNetwork: false, isIsolated: false } as RunnerDeps['sandboxes'];
  const order = { url: 'https://ci.example.org', listens, certificate: 'of the server' };
  await using api = await openApiAccess(deps({ sandboxes }), order);
  assert.deepEqual([api.mounts, api.hosts], [[], '']);
  assert.equal(readFileSync(api.environment['HEADRACE_CA_FILE'] ?? '', 'utf8'), 'of the server');
});
