import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { mkdtemp, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { openSandboxes } from '../../../src/runner/sandbox/index.ts';
import { longestWait } from '../../support/pauses.ts';
import { groupsOf, isRoot, marked, nothingLeft, open } from './support.ts';
import { lacks } from '../../support/machine.ts';

for (const network of ['none', 'internet'] as const) {
  test(
    `after kill -9 of the runner all processes end by themselves, and the next opening sweeps the rest (${network})`,
    { skip: network === 'internet' && lacks('root', 'tun') },
    async (t) => {
      const stateDir = await realpath(await mkdtemp(join(tmpdir(), 'headrace-sweep-')));
      t.after(async () => {
        victim.kill('SIGKILL');
        await (await openSandboxes({ stateDir, network: 'none', isolation: 'off', log: () => {} })).close(); // sweeps, if the test could not
        await rm(stateDir, { recursive: true, force: true });
      });
      const mark = randomUUID();
      const victim = spawn(
        process.execPath,
        [
          '--disable-warning=ExperimentalWarning',
          fileURLToPath(new URL('victim.ts', import.meta.url)),
          stateDir,
          mark,
          network,
        ],
        {
          stdio: ['ignore', 'pipe', 'inherit'],
          env: { ...process.env, VICTIM_MARK: mark },
        },
      );
      await once(victim.stdout, 'data');
      const helpers = descendantsOf(String(victim.pid));
      assert.ok(
        helpers.length >= (network === 'internet' ? 5 : 3),
        `helpers, waiting and running bubblewrap: ${helpers.length}`,
      );
      victim.kill('SIGKILL');
      await once(victim, 'exit');
      // Each of them is told by the kernel; how long that takes is the machine's affair, but it comes to an end.
      assert.deepEqual(await leftOf(() => [...marked(mark), ...helpers.filter(alive)]), []);
      const left = readdirSync(join(stateDir, 'runs'));
      const groups = groupsOf(stateDir);
      assert.notDeepEqual(left, []);

      const sandboxes = await openSandboxes({ stateDir, network: 'none', isolation: 'required', log: () => {} });
      try {
        const isThere = (run: string): boolean =>
          existsSync(join(stateDir, 'runs', run)) || groups.some((group) => existsSync(join(group, run)));
        assert.deepEqual(left.filter(isThere), [], 'something of the killed runner’s runs is left');
      } finally {
        await sandboxes.close();
      }
      nothingLeft(stateDir, mark);
    },
  );
}

test('at whatever moment of an opening the sandboxes are closed, nothing is left', async (t) => {
  for (let pause = 0; pause < 24; pause += 2) {
    const { sandboxes, stateDir } = await open(t, { prepare: 2 });
    await delay(pause);
    const helpers = descendantsOf(String(process.pid));
    assert.ok(helpers.length >= 2, 'the helpers are not found');
    await sandboxes.close();
    assert.deepEqual(helpers.filter(alive), [], `after ${pause} ms`);
    assert.deepEqual(readdirSync(stateDir), []);
  }
});

test('a sandbox that is only half open when the runner is killed goes with it', async () => {
  const helper = new URL('../../../src/runner/sandbox/mount-helper.ts', import.meta.url).href;
  const user = isRoot ? 65_534 : -1;
  // Without a control group, which would know every process. Stopped as soon as it has made the sandbox's first process.
  const program = `
    const { readFileSync } = await import('node:fs');
    const { openMountHelper } = await import('${helper}');
    const helper = await openMountHelper({});
    const namespaces = helper.open({
      ownNetwork: false,
      entrances: [],
      as: { uid: ${user}, gid: ${user} },
      descriptors: { 0: { file: '/dev/null' } },
      command: ['bwrap', '--unshare-all', '--die-with-parent', '--ro-bind', '/', '/', 'sh', '-c', 'sleep 600; :', process.argv[1]],
    });
    const { pid } = await namespaces.start();
    while (readFileSync('/proc/' + pid + '/task/' + pid + '/children', 'utf8') === '');
    process.kill(pid, 'SIGSTOP');
    process.kill(process.pid, 'SIGKILL');`;
  for (let turn = 0; turn < 5; turn += 1) {
    const mark = randomUUID();
    const args = ['--disable-warning=ExperimentalWarning', '--input-type=module', '-e', program, mark];
    const ended = await once(spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'inherit'] }), 'exit');
    assert.deepEqual(ended, [null, 'SIGKILL'], 'it did not come so far');
    assert.deepEqual(await leftOf(() => named(mark)), []);
  }
});

test('one folder serves one runner at a time', async (t) => {
  const { stateDir } = await open(t);
  await assert.rejects(
    openSandboxes({ stateDir, network: 'none', isolation: 'required', log: () => {} }),
    /another runner/,
  );
});

test('a machine that cannot isolate is told why', async (t) => {
  const stateDir = await mkdtemp(join(tmpdir(), 'headrace-refuse-'));
  t.after(() => rm(stateDir, { recursive: true, force: true }));
  const program = `import { openSandboxes } from ${JSON.stringify(new URL('../../../src/runner/sandbox/index.ts', import.meta.url).href)};
    await openSandboxes({ stateDir: ${JSON.stringify(stateDir)}, network: 'none', isolation: 'required', log: () => {} }).then(() => console.log('opened'), (error) => console.log(error.message));`;
  // In a user namespace that may not make further ones, nothing can be isolated.
  const script = `echo 0 > /proc/sys/user/max_user_namespaces; exec "$@"`;
  const child = spawn(
    'unshare',
    [
      '--user',
      '--map-root-user',
      'sh',
      '-c',
      script,
      'sh',
      process.execPath,
      '--disable-warning=ExperimentalWarning',
      '--input-type=module',
      '-e',
      program,
    ],
    {
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  );
  let said = '';
  child.stdout.on('data', (chunk: Buffer) => (said += chunk.toString()));
  await once(child, 'close');
  assert.match(said, /builds cannot be isolated|no free user ID/);
  assert.deepEqual(readdirSync(stateDir), []);
});

/**
 * Waits until two looks in a row find no process, and returns what never went. One look is not enough: a process that is
 * just becoming another program has no words of its own, and one that was forked during the look is not on the list.
 */
async function leftOf(find: () => string[]): Promise<string[]> {
  let before = ['not looked yet'];
  for (const deadline = performance.now() + longestWait; ; await delay(50)) {
    const found = find();
    if ((found.length === 0 && before.length === 0) || performance.now() > deadline) return found;
    before = found;
  }
}

function descendantsOf(pid: string): string[] {
  const children = childrenOf(pid).split(' ').filter(Boolean);
  return children.flatMap((child) => [child, ...descendantsOf(child)]);
}

function childrenOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8');
  } catch {
    return ''; // it ended since it was found
  }
}

/** Processes with a word in their command line. */
function named(word: string): string[] {
  return readdirSync('/proc').filter((pid) => {
    try {
      return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(word);
    } catch {
      return false; // gone
    }
  });
}

function alive(pid: string): boolean {
  try {
    readlinkSync(`/proc/${pid}/exe`);
    return true;
  } catch {
    return false; // gone, or a zombie that waits for the machine's init
  }
}
