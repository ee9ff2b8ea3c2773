import assert from 'node:assert/strict';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import test from 'node:test';
import { run } from '../../../src/shared/lib/processes.ts';
import { longestWait } from '../../support/pauses.ts';
import { open, tree } from './support.ts';

test('the exit status is the command’s, and a later run knows nothing of an earlier one', async (t) => {
  const { sh } = await open(t);
  assert.deepEqual(await sh('exit 0'), { exitStatus: 0, step: 'suite', reason: null, text: '' });
  assert.equal((await sh('exit 7')).exitStatus, 7);
  assert.equal((await sh('kill -9 $$')).exitStatus, 137);
  assert.equal((await sh('touch /build/x /tmp/x ~/x /dev/shm/x && ls /build /tmp ~ | grep -c x')).text.trim(), '3');
  assert.equal((await sh('ls -A /build /tmp ~ /dev/shm | grep -c x')).text.trim(), '0');
});

test('standard output and error come in the order they were written, also through /dev/stderr', async (t) => {
  const { sh } = await open(t);
  const expected = Array.from({ length: 300 }, (_, index) => `${index}\n`).join('');
  const { text } = await sh(
    'i=0; while [ $i -lt 300 ]; do echo $i; echo $((i+1)) >&2; echo $((i+2)) >/dev/stderr; i=$((i+3)); done',
  );
  assert.equal(text, expected);
});

test('variables arrive as they are', async (t) => {
  const { sh } = await open(t);
  const value = `a b'"$HOME\n\\ é ${'x'.repeat(100_000)}`;
  const { text } = await sh('printf %s "$SECRET_VALUE"', { environment: { SECRET_VALUE: value } });
  assert.ok(text === value, 'the value has changed on its way'); // not equal(): its message would print all of it
});

test('a build finds what it installed into its home, and our own commands do not [promise: build-files]', async (t) => {
  const { sh } = await open(t);
  const put = (place: string, name: string): string =>
    `mkdir -p ~/${place}; printf '#!/bin/sh\\necho from ${place}\\n' > ~/${place}/${name}; chmod +x ~/${place}/${name}`;
  const plant = [put('.local/bin', 'one'), put('go/bin', 'two'), put('.cargo/bin', 'three'), put('.local/bin', 'id')];
  const ask = `${plant.join('; ')}; one; two; three; id -un`;
  const built = await sh(`${ask}; echo "$NPM_CONFIG_PREFIX"`, { isBuild: true });
  assert.equal(built.text, 'from .local/bin\nfrom go/bin\nfrom .cargo/bin\nfrom .local/bin\n/home/build/.local\n');
  assert.equal((await sh(ask)).text.split('\n').at(-2), 'build');
  const other = { environment: { PATH: '/usr/bin:/bin', NPM_CONFIG_PREFIX: '/tmp' }, isBuild: true } as const;
  assert.equal((await sh('echo "$PATH $NPM_CONFIG_PREFIX"', other)).text, '/usr/bin:/bin /tmp\n');
});

test('no variable is in a command line [promise: build-secrets]', async (t) => {
  const { sh } = await open(t);
  const seen: string[] = [];
  await sh('echo ready; sleep 0.2', {
    environment: { SECRET_VALUE: 'hidden-from-everybody' },
    output: () => {
      for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
        try {
          if (readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('hidden-from-everybody')) seen.push(pid);
        } catch {
          // it ended meanwhile
        }
      }
    },
  });
  assert.deepEqual(seen, []);
});

test('the first step that fails ends the run and is named', async (t) => {
  const { sh } = await open(t);
  const steps = ['true', 'echo two; exit 4', 'echo three'].map((command, index) => ({
    name: `step ${index}`,
    command,
  }));
  assert.deepEqual(await sh(steps), { exitStatus: 4, step: 'step 1', reason: null, text: 'two\n' });
});

test('a command with quotes, lines and signs is one command', async (t) => {
  const { sh } = await open(t);
  assert.equal((await sh(`echo 'it'\\''s' "$((1+1))"\necho "second" # comment`)).text, "it's 2\nsecond\n");
});

test('runs share a checkout, and no change reaches it or another run', async (t) => {
  const { sh, folder, sandboxes } = await open(t);
  const checkout = await tree(join(folder, 'checkout'), { 'a.txt': 'original\n', 'deep/b.txt': 'b\n' });
  await sandboxes.adopt(checkout);
  const workspace = { checkout };
  const change = 'echo changed > a.txt; rm -r deep; chmod 600 a.txt; mkdir new; touch new/file; cat a.txt; ls';
  const [first, second] = await Promise.all([
    sh(change, { workspace }),
    sh('sleep 0.1; cat a.txt deep/b.txt; ls', { workspace }),
  ]);
  assert.equal(first?.text, 'changed\na.txt\nnew\n');
  assert.equal(second?.text, 'original\nb\na.txt\ndeep\n');
  assert.equal(readFileSync(join(checkout, 'a.txt'), 'utf8'), 'original\n');
  assert.deepEqual(readdirSync(checkout).sort(), ['a.txt', 'deep']);
});

test('git works in a checkout without further ado', async (t) => {
  const { sh, folder, sandboxes } = await open(t);
  const checkout = await tree(join(folder, 'checkout'), { 'a.txt': 'a\n' });
  for (const args of [
    ['init', '-q'],
    ['add', '.'],
    ['-c', 'user.name=n', '-c', 'user.email=e@x', 'commit', '-qm', 'first'],
    ['tag', 'v1'],
  ]) {
    assert.equal((await run('git', ['-C', checkout, ...args])).status, 0);
  }
  await sandboxes.adopt(checkout);
  const { exitStatus, text } = await sh(
    'git log --format=%s && git describe --tags && echo b >> a.txt && git status --short',
    { workspace: { checkout } },
  );
  assert.deepEqual([exitStatus, text], [0, 'first\nv1\n M a.txt\n']);
});

test('many layers lie over each other, however long their paths are', async (t) => {
  const { sh, folder } = await open(t);
  const layers: string[] = [];
  for (let at = 0; at < 60; at += 1) {
    const path = join(folder, 'a-long-name-'.repeat(8) + String(at));
    layers.push(await tree(path, { [`file-${at}`]: '', newest: `${at}\n` }));
  }
  const { text } = await sh('ls /opt/many | wc -l; cat /opt/many/newest', { mounts: [{ at: '/opt/many', layers }] });
  assert.equal(text, '61\n59\n');
});

test('writes over layers go to the one writable directory, and the layers stay', async (t) => {
  const { sh, folder } = await open(t);
  const below = await tree(join(folder, 'below'), { 'bin/other': 'other\n' });
  const writable = join(folder, 'above');
  await mkdir(writable);
  const { text } = await sh('cd /opt/x && mkdir lib && echo new > lib/tool && cat bin/other lib/tool', {
    mounts: [{ at: '/opt/x', layers: [below], writable }],
  });
  assert.equal(text, 'other\nnew\n');
  assert.deepEqual(readdirSync(below), ['bin']);
  assert.deepEqual(readdirSync(writable), ['lib']);
  assert.deepEqual(readdirSync(join(writable, 'lib')), ['tool']);
});

test('layers at one place lie over each other, later ones on top, all read-only', async (t) => {
  const { sh, folder } = await open(t);
  const one = await tree(join(folder, 'one'), { 'bin/tool': 'one\n', 'only-one': '1\n' });
  const two = await tree(join(folder, 'two'), { 'bin/tool': 'two\n' });
  const inner = await tree(join(folder, 'inner'), { file: 'inner\n' });
  const mounts = [
    { at: '/srv/dependency/inner', layers: [inner] },
    { at: '/srv/dependency', layers: [one, two] },
    { at: '/opt/single', layers: [one] },
  ];
  const { text } = await sh(
    'cat /srv/dependency/bin/tool /srv/dependency/only-one /srv/dependency/inner/file /opt/single/bin/tool; touch /srv/dependency/x /opt/single/x',
    { mounts },
  );
  assert.match(text, /^two\n1\ninner\none\n(touch: .*Read-only file system\n){2}$/);
});

test('a writable directory keeps what the run leaves, and a directory can be the workspace', async (t) => {
  const { sh, folder } = await open(t);
  const [prefix, source] = [join(folder, 'prefix'), join(folder, 'source')];
  for (const path of [prefix, source]) await mkdir(path);
  const { exitStatus } = await sh('pwd > /srv/x/where; touch made', {
    mounts: [{ at: '/srv/x', writable: prefix }],
    workspace: { directory: source },
  });
  assert.equal(exitStatus, 0);
  assert.equal(readFileSync(join(prefix, 'where'), 'utf8'), '/build\n');
  assert.ok(statSync(join(source, 'made')).isFile());
});

test('a daemon of one step serves the next on loopback, and is gone afterwards', async (t) => {
  const { sh } = await open(t);
  const serve = `perl -MIO::Socket::INET -e '$s=IO::Socket::INET->new(LocalAddr=>"127.0.0.1",LocalPort=>7777,Listen=>5,ReuseAddr=>1) or die;
    exit if fork; $0="daemon"; require POSIX; POSIX::setsid(); open STDOUT,">/dev/null"; open STDERR,">/dev/null"; while($c=$s->accept){print $c "hello\\n"; close $c}'`;
  const ask = `perl -MIO::Socket::INET -e '$c=IO::Socket::INET->new("127.0.0.1:7777") or die "nobody there\\n"; print <$c>'`;
  const both = await sh([
    { name: 'launch', command: serve },
    { name: 'suite', command: ask },
  ]);
  assert.deepEqual([both.exitStatus, both.text], [0, 'hello\n']);
  assert.match((await sh(ask)).text, /nobody there/);
});

test('cancel asks every process first', async (t) => {
  const { sh } = await open(t);
  const cancel = new AbortController();
  const command = `trap 'wait; echo parent stops; exit 0' TERM; (trap 'echo child stops; exit' TERM; echo ready; while :; do sleep 0.05; done) & while :; do sleep 0.05; done`;
  const chunks: string[] = [];
  const ended = await sh(command, {
    signal: cancel.signal,
    graceMs: longestWait, // how soon they stop is the machine's affair
    output: (chunk) => {
      chunks.push(chunk.toString());
      if (chunk.includes('ready')) cancel.abort();
    },
  });
  assert.equal(ended.reason, 'cancelled');
  assert.equal(ended.exitStatus, null);
  assert.match(chunks.join(''), /child stops\n[^]*parent stops/);
});

test('a run that was cancelled before it began does not begin', async (t) => {
  const { sh } = await open(t);
  assert.deepEqual(await sh('echo no', { signal: AbortSignal.abort() }), {
    exitStatus: null,
    step: 'suite',
    reason: 'cancelled',
    text: '',
  });
});

test('output that nobody takes stops the command, and a consumer that fails is our failure, not theirs', async (t) => {
  const { sh } = await open(t);
  await assert.rejects(
    sh('yes', {
      output: () => {
        throw new Error('disk full');
      },
    }),
    /could not be delivered/,
  );
  assert.equal((await sh('echo still works')).text, 'still works\n');
});

test('without isolation the same job runs as a plain process in a copy', async (t) => {
  const { sh, folder, logged } = await open(t, { isolation: 'off' });
  const checkout = await tree(join(folder, 'checkout'), { 'a.txt': 'original\n' });
  const ran = await sh('cat a.txt; echo changed > a.txt; echo err >&2; sleep 60 & exit 5', { workspace: { checkout } });
  assert.deepEqual([ran.exitStatus, ran.text, ran.reason], [5, 'original\nerr\n', null]);
  assert.equal(readFileSync(join(checkout, 'a.txt'), 'utf8'), 'original\n');
  assert.equal(
    (await sh('sleep 60', { limits: { memoryBytes: 1e9, processes: 100, timeoutMs: 100 } })).reason,
    'timed_out',
  );
  assert.match(logged.join('\n'), /NOT isolated/);
});

test('without isolation limits hold, and a daemon does not outlive or hold up its run', async (t) => {
  const { sh, logged } = await open(t, { isolation: 'off' });
  if (!/cgroup v/.test(logged.join())) return t.skip('needs control groups'); // a daemon leaves its process group
  const daemon = `perl -e 'exit if fork; require POSIX; POSIX::setsid(); sleep 600'; echo to stderr > /dev/stderr`;
  assert.equal((await sh(daemon)).text, 'to stderr\n');
  const hog = await sh(`perl -e '$x = "x" x (400 * 1024 * 1024)'`, {
    limits: { memoryBytes: 64 * 1024 * 1024, processes: 64, timeoutMs: 60_000 },
  });
  assert.equal(hog.reason, 'out_of_memory');
});
