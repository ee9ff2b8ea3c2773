import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import { run } from '../../../src/lib/processes.ts';
import { isRoot } from './support.ts';

test(
  'internet: outside and its names yes; private ranges, the machine and its loopback no [promise: build-network]',
  { skip: !isRoot && 'needs network namespaces' },
  async (t) => {
    const folder = await mkdtemp(join(tmpdir(), 'headrace-network-'));
    t.after(() => rm(folder, { recursive: true, force: true }));
    const world = fileURLToPath(new URL('network_world.ts', import.meta.url));
    const ran = await run('unshare', [
      '--net',
      '--mount',
      '--propagation',
      'private',
      process.execPath,
      '--disable-warning=ExperimentalWarning',
      world,
      folder,
    ]);
    const reached = [
      '20.9.9.10 outside',
      'somewhere.example outside',
      '20.9.9.1 refused',
      '10.9.9.10 refused',
      '10.9.9.1 refused',
      '10.0.2.2 refused',
      '10.0.2.3 refused',
      '127.0.0.1 refused',
      '169.254.169.254 refused',
      '168.63.129.16 refused',
      'own-loopback works',
    ];
    const said = (ran.stdout.toString() + ran.stderr.toString()).trim().split('\n');
    assert.deepEqual(said, [...reached, ...reached, 'gained refused']);
  },
);
