import assert from 'node:assert/strict';
import { chmod, chown, mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { tmpdir } from 'node:os';
import test from 'node:test';
import { run } from '../../../src/lib/processes.ts';
import { isRoot, tree } from './support.ts';

const user = 60_913;

test('an ordinary user has sandboxes too', { skip: !isRoot && 'the other tests show it' }, async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'headrace-user-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  await tree(folder, { 'checkout/a.txt': 'original\n', 'dependency/tool': 'tool\n', 'other/tool': 'other\n' });
  await chmod(folder, 0o755);
  for (const path of ['', 'checkout', 'checkout/a.txt']) await chown(join(folder, path), user, user);
  const program = `
    const { openSandboxes } = await import(${JSON.stringify(new URL('../../../src/runner/sandbox/index.ts', import.meta.url).href)});
    const sandboxes = await openSandboxes({ stateDir: '${folder}/state', network: 'none', isolation: 'required', log: () => {} });
    const ended = await sandboxes.run({
      id: 'a', steps: [{ name: 'suite', command: 'id -u; grep CapBnd /proc/self/status; cat a.txt /srv/d/tool; echo x > a.txt; cat a.txt; mkdir -m 0 locked; setsid sleep 600 & exit 3' }],
      environment: {}, workspace: { checkout: '${folder}/checkout' }, mounts: [{ at: '/srv/d', layers: ['${folder}/dependency', '${folder}/other'] }],
      limits: { memoryBytes: 1e9, processes: 1000, timeoutMs: 60000 }, output: (chunk) => void process.stdout.write(chunk), signal: new AbortController().signal,
    });
    await sandboxes.close();
    console.log(JSON.stringify(ended), (await import('node:fs')).readdirSync('${folder}/state').length);`;
  const ran = await run(
    process.execPath,
    ['--disable-warning=ExperimentalWarning', '--input-type=module', '-e', program],
    { uid: user, gid: user, env: { PATH: process.env.PATH ?? '' } },
  );
  assert.equal(
    ran.stdout.toString() + ran.stderr.toString(),
    '1000\nCapBnd:\t0000000000000000\noriginal\nother\nx\n{"exitStatus":3,"step":"suite","reason":null} 0\n',
  );
});
