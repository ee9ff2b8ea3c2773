import assert from 'node:assert/strict';
import { closeSync, fstatSync, lstatSync, openSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { run } from '../../../src/shared/lib/processes.ts';
import type { Network } from '../../../src/runner/sandbox/types.ts';
import { openMountHelper } from '../../../src/runner/sandbox/mount-helper.ts';
import { isRoot, marked, open, type Bench } from './support.ts';
import { lacks } from '../../support/machine.ts';

interface Attacked extends Bench {
  /** Where runs find the attacks. */
  mounts: { at: string; layers: string[] }[];
}

async function attacked(t: TestContext, network: Network = 'none'): Promise<Attacked> {
  const bench = await open(t, { network });
  const tools = join(bench.folder, 'tools');
  await mkdir(tools);
  const source = fileURLToPath(new URL('single-use-attacks.c', import.meta.url));
  const compiled = await run('cc', ['-o', join(tools, 'attack'), source]);
  assert.equal(compiled.status, 0, compiled.stderr.toString());
  return { ...bench, mounts: [{ at: '/opt/attacks', layers: [tools] }] };
}

test('what a run leaves in its pipes, and keeps alive past its death, never reaches another [promise: build-single-use] [promise: build-single-use]', async (t) => {
  const { sh, mounts } = await attacked(t);
  for (let turn = 0; turn < 16; turn += 1) {
    await sh('/opt/attacks/attack leave', { mounts });
    const victim = await sh('echo "as ever, with $SECRET"', { environment: { SECRET: 'a secret' } });
    assert.deepEqual(victim, { exitStatus: 0, step: 'suite', reason: null, text: 'as ever, with a secret\n' });
  }
});

test('ports and names that a run keeps are free for the next', { skip: lacks('root', 'tun') }, async (t) => {
  const { sh, mounts } = await attacked(t, 'internet');
  for (let turn = 0; turn < 4; turn += 1) {
    await sh('/opt/attacks/attack leave', { mounts });
    assert.equal((await sh('/opt/attacks/attack network', { mounts })).text, 'free\n');
  }
});

test(
  'a run that uses up what the kernel counts by user leaves the others theirs [promise: build-user] [promise: build-user]',
  { skip: lacks('root') },
  async (t) => {
    const { sh, mounts } = await attacked(t);
    const greedy = new AbortController();
    const full = Promise.withResolvers<void>();
    const first = sh('/opt/attacks/attack watches', {
      mounts,
      signal: greedy.signal,
      output: (chunk) => {
        if (Number(chunk.toString()) >= 100) full.resolve();
      },
    });
    await full.promise;
    const second = await sh('/opt/attacks/attack watch', { mounts });
    greedy.abort();
    assert.equal((await first).reason, 'cancelled');
    assert.equal(second.text, 'watching\n');
  },
);

const namespaceKinds = ['mnt', 'pid', 'ipc', 'uts', 'user', 'cgroup', 'net'];

interface Facts {
  user: string;
  groups: string;
  namespaces: string[];
}

test('no run has the user, the group or a namespace of an earlier one [promise: build-single-use]', async (t) => {
  const { sh } = await open(t, lacks('root', 'tun') === false ? { network: 'internet' } : {});
  // Kept open, because the kernel gives the number of a namespace that is gone to the next.
  const opened: number[] = [];
  t.after(() => opened.forEach((fd) => closeSync(fd)));
  const seen: Facts[] = [];
  for (let turn = 0; turn < 4; turn += 1) {
    const mark = `single-use-${turn}`;
    const looked = new AbortController();
    await sh('echo ready; sleep 600', {
      environment: { FIND_ME: mark },
      signal: looked.signal,
      output: (chunk) => {
        if (!chunk.includes('ready')) return;
        const [pid = ''] = marked(mark);
        const namespaces = namespaceKinds.map((name) => {
          const fd = openSync(`/proc/${pid}/ns/${name}`, 'r');
          opened.push(fd);
          return `${name} ${fstatSync(fd).ino}`;
        });
        const user = /^Uid:\t(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? '';
        seen.push({ user, groups: readFileSync(`/proc/${pid}/cgroup`, 'utf8'), namespaces });
        looked.abort(); // not before: its process has to be there however late this looks
      },
    });
  }
  assert.equal(seen.length, 4);
  const namespaces = seen.flatMap((facts) => facts.namespaces);
  assert.deepEqual([...new Set(namespaces)], namespaces);
  if (!isRoot) return;
  for (const fact of ['user', 'groups'] as const)
    assert.equal(
      new Set(seen.map((facts) => facts[fact])).size,
      4,
      `${fact}: ${JSON.stringify(seen.map((f) => f[fact]))}`,
    );
});

const [KEYCTL, ADD_KEY] = process.arch === 'x64' ? [250, 248] : [219, 217];
/** Gives itself a session keyring with a secret in it, and becomes a program. */
const withAKey = `
  my ($type, $name, $secret) = ('user', 'headrace-test-key', 'secret');
  syscall(${KEYCTL}, 1, 0) >= 0 && syscall(${ADD_KEY}, $type, $name, $secret, 6, -3) >= 0 or die "no keys here: $!";
  exec @ARGV`;
const search = `perl -e 'my ($type, $name) = ("user", "headrace-test-key"); print syscall(${KEYCTL}, 10, -3, $type, $name, 0) >= 0 ? "found" : "not found", "\\n"'`;

test('the process of a run begins with nothing of another run open [promise: build-single-use]', async (t) => {
  const helper = await openMountHelper({});
  t.after(() => helper.close());
  const user = isRoot ? 65_534 : -1;
  const namesOf = (pid: number): string[] =>
    readdirSync(`/proc/${pid}/fd`).map((fd) => readlinkSync(`/proc/${pid}/fd/${fd}`));
  const pipesOf = (pid: number): string[] => namesOf(pid).filter((target) => target.startsWith('pipe:'));
  const runs = Array.from({ length: 3 }, () =>
    helper.open({
      ownNetwork: false,
      entrances: [],
      as: { uid: user, gid: user },
      descriptors: { 0: 'reads', 1: 'writes', 2: 'writes', 4: 'reads' },
      command: ['cat'],
    }),
  );
  const started = await Promise.all(runs.map((one) => one.start()));
  const later = helper.open({
    ownNetwork: false,
    entrances: [],
    as: { uid: user, gid: user },
    descriptors: { 1: 'writes' },
    command: ['true'],
  });
  const helperPid = Number((await later.paths).mount.split('/')[2]);
  const children = readFileSync(`/proc/${helperPid}/task/${helperPid}/children`, 'utf8').trim().split(' ').map(Number);
  const running = started.map(({ pid }) => pid);
  // It waits to be the fourth run.
  const [waiting = 0, ...others] = children.filter((pid) => !running.includes(pid));
  assert.deepEqual(others, [], `${children.join(' ')} beside ${running.join(' ')}`);
  const held = new Set(running.flatMap(pipesOf));
  assert.ok(held.size >= 12, `pipes of the runs: ${held.size}`);
  assert.deepEqual(
    pipesOf(waiting).filter((pipe) => held.has(pipe)),
    [],
  );
  assert.deepEqual(
    namesOf(waiting).filter((target) => /^(mnt|net|user):/.test(target)),
    [],
  );
  await Promise.all([...runs, later].map((one) => one.close()));
});

test('the session keyring of the runner is not that of its builds [promise: build-single-use]', async (t) => {
  const { folder } = await open(t);
  const moduleOf = (name: string): string => new URL(`../../../src/runner/sandbox/${name}`, import.meta.url).href;
  const user = isRoot ? 65_534 : -1;
  // Once in a sandbox, and once as what is started there, but without the filter that refuses to look for keys at all.
  const program = `
    const { openSandboxes } = await import('${moduleOf('index.ts')}');
    const { openMountHelper } = await import('${moduleOf('mount-helper.ts')}');
    const { execSync } = await import('node:child_process');
    const { readFileSync } = await import('node:fs');
    const search = ${JSON.stringify(search)};
    process.stdout.write('runner ' + execSync(search));
    const helper = await openMountHelper({});
    const namespaces = helper.open({
      ownNetwork: false, entrances: [], as: { uid: ${user}, gid: ${user} },
      descriptors: { 1: 'writes' }, command: ['sh', '-c', search],
    });
    const { pipe, ended } = await namespaces.start();
    await ended;
    process.stdout.write('unfiltered ' + readFileSync(pipe(1), 'utf8'));
    await helper.close();
    const sandboxes = await openSandboxes({ stateDir: '${folder}/with-key', network: 'none', isolation: 'required', log: () => {} });
    await sandboxes.run({
      id: 'a', steps: [{ name: 'suite', command: 'echo build $(' + search + ')' }],
      environment: {}, workspace: { empty: true }, limits: { memoryBytes: 1e9, processes: 1000, timeoutMs: 60000 },
      output: (chunk) => void process.stdout.write(chunk), signal: new AbortController().signal,
    });
    await sandboxes.close();`;
  const node = [process.execPath, '--disable-warning=ExperimentalWarning', '--input-type=module', '-e', program];
  const ran = await run('perl', ['-e', withAKey, ...node]);
  assert.equal(ran.stdout.toString() + ran.stderr.toString(), 'runner found\nunfiltered not found\nbuild not found\n');
});

test('the kernel’s rarer parts are closed to builds [promise: build-system-calls] [promise: build-system-calls]', async (t) => {
  const { sh } = await open(t);
  const { text } = await sh(
    `perl -e '
      for (["vsock", sub { socket my $s, 40, 1, 0 }], ["io_uring", sub { my $p = "\\0" x 120; syscall(425, 8, $p) >= 0 }],
           ["keyctl", sub { syscall(${KEYCTL}, 0, -3, 0) >= 0 }]) { print "$_->[0] ", $_->[1]->() ? "open" : "closed", "\\n" }'`,
  );
  assert.equal(text, 'vsock closed\nio_uring closed\nkeyctl closed\n');
});

test('files of one run belong to the next run, and on disk to a user under which no process runs', async (t) => {
  const { sh, folder, sandboxes } = await open(t);
  const directory = join(folder, 'shared');
  await mkdir(directory);
  const workspace = { directory };
  await sh('mkdir -m 700 private; echo one > private/file; chmod 600 private/file; ln -s file private/link', {
    workspace,
  });
  const { text } = await sh(
    'stat -c "%U %a %n" private private/*; echo two >> private/file; chmod 644 private/file; cat private/link',
    {
      workspace,
    },
  );
  assert.equal(text, 'build 700 private\nbuild 600 private/file\nbuild 777 private/link\none\ntwo\n');
  const owners = ['private', 'private/file', 'private/link'].map((name) => lstatSync(join(directory, name)).uid);
  assert.deepEqual(owners, Array(3).fill(sandboxes.owner.uid));
});
