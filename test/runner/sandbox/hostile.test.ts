import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { chmod, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import test from 'node:test';
import { run } from '../../../src/shared/lib/processes.ts';
import { usualLimits, marked, megabyte, open, tree } from './support.ts';
import { lacks } from '../../support/machine.ts';

test('nothing of the machine is there but its programs [promise: build-files]', async (t) => {
  const { sh, folder, stateDir } = await open(t);
  await tree(folder, { 'data/secret': 'secret' });
  await chmod(folder, 0o755);
  const places = [
    folder,
    stateDir,
    '/root',
    '/sys',
    '/boot',
    '/mnt',
    '/srv',
    '/etc/shadow',
    '/etc/ssh',
    '/etc/sudoers',
    '/etc/ssl/private',
    '/var/lib',
    '/var/log',
  ];
  const { text } = await sh(
    places.map((place) => `[ -e ${place} ] && echo there: ${place}`).join('; ') + '; ls -1 / | tr "\\n" " "',
  );
  assert.doesNotMatch(text, /there:/);
  assert.deepEqual(
    text
      .trim()
      .split(' ')
      .filter((name) => !/^lib(32|64|x32)?$/.test(name)),
    ['bin', 'build', 'dev', 'etc', 'home', 'proc', 'run', 'sbin', 'tmp', 'usr', 'var'],
  );
});

test('all but workspace, home and temporary files is read-only [promise: build-files]', async (t) => {
  const { sh } = await open(t);
  const { text } = await sh(
    'for d in / /usr /usr/bin /etc /dev /home /var /proc /proc/sys/kernel; do touch $d/x 2>/dev/null && echo written: $d; done; touch /build/x /tmp/x ~/x /var/tmp/y /dev/shm/x && mkdir /run/lock /var/run/user && ls /run && echo fine',
  );
  assert.equal(text, 'lock\nuser\nfine\n');
  assert.equal((await sh('ls -A /run')).text, '', 'the next run has its own');
});

test('it sees its own processes alone, and cannot signal or trace the runner [promise: build-processes]', async (t) => {
  const { sh } = await open(t);
  const { text } = await sh(
    `ls -d /proc/[0-9]* | wc -l; kill -0 ${process.pid} 2>/dev/null && echo signalled; kill -9 -1`,
  );
  assert.ok(Number.parseInt(text, 10) < 10, text);
  assert.doesNotMatch(text, /signalled/);
});

test('two runs at a time do not see each other', async (t) => {
  const { sh } = await open(t);
  const look =
    'echo $$ > /tmp/mine; sleep 0.3; ls /tmp /dev/shm; grep -l other-run /proc/[0-9]*/environ 2>/dev/null; hostname; ls -d /proc/[0-9]* | wc -l';
  const [one, two] = await Promise.all([
    sh(look, { environment: { WHO: 'one' } }),
    sh(look, { environment: { WHO: 'other-run-2' } }),
  ]);
  assert.equal(one?.text.split('\n')[0], '/dev/shm:');
  assert.doesNotMatch(one?.text ?? '', /proc/);
  assert.ok(two);
});

test(
  'on the machine it is nobody, without any capability [promise: build-privileges]',
  { skip: lacks('root') },
  async (t) => {
    const { sh, sandboxes } = await open(t);
    const ids: string[] = [];
    const seen = new AbortController();
    const { text } = await sh(
      'echo ready; grep -E "^(Cap(Inh|Prm|Eff|Bnd|Amb)|NoNewPrivs)" /proc/self/status; id -u; sleep 600',
      {
        environment: { FIND_ME: 'nobody-test' },
        signal: seen.signal,
        output: (chunk) => {
          if (!chunk.includes('ready')) return;
          const [pid] = marked('nobody-test');
          ids.push(/^Uid:\t(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? '');
          seen.abort(); // not before: its process has to be there however late this looks
        },
      },
    );
    // Neither root nor whom the files on disk belong to.
    assert.ok(Number(ids[0]) >= 1_913_000_000 && Number(ids[0]) !== sandboxes.owner.uid, ids.join());
    assert.notEqual(sandboxes.owner.uid, 0);
    assert.equal(text, '');
    const inside = await sh('grep -E "^(Cap|NoNewPrivs)" /proc/self/status | cut -f2 | sort -u; id -u');
    assert.equal(inside.text, '0000000000000000\n1\n1000\n');
  },
);

test('devices, mounts, namespaces and set-user-id programs are out of reach [promise: build-privileges]', async (t) => {
  const { sh } = await open(t);
  const attempts = [
    'mknod /tmp/disk b 8 0',
    'mknod /tmp/mem c 1 1',
    'mount -t tmpfs none /tmp',
    'mount --bind /etc /build',
    'umount /usr',
    'unshare --user true',
    'unshare --user --map-root-user mount -t tmpfs none /tmp',
    'chroot / true',
    'nsenter --target 1 --mount true',
    'cat /dev/mem',
    'cat /dev/vda',
    'cat /proc/kcore',
    'dmesg',
    'echo b > /proc/sysrq-trigger',
    'echo "|/bin/true" > /proc/sys/kernel/core_pattern',
    'echo 1 > /proc/sys/net/ipv4/ip_forward',
    'echo -1000 > /proc/self/oom_score_adj',
    'hostname other',
    'date -s 2000-01-01',
    'su -c true root',
    'chown root /tmp',
  ];
  const { text } = await sh(
    attempts
      .map((attempt) => `(${attempt}) </dev/null >/dev/null 2>&1 && echo 'worked: ${attempt.replaceAll("'", '')}'`)
      .join('\n') + '\n:',
  );
  assert.equal(text, '');
  const uid = await sh(
    'cp /usr/bin/id /build/id && chmod 4755 /build/id && /build/id -u; for f in $(find /usr/bin -perm -4000 | head -3); do stat -c %a $f; done >/dev/null; grep -c nosuid /proc/mounts',
  );
  assert.match(uid.text, /^1000\n/);
});

test('network none: loopback works, the machine’s loopback does not [promise: build-network]', async (t) => {
  const { sh } = await open(t);
  const { port, close } = await listen('127.0.0.1');
  t.after(close);
  const { text } = await sh(
    `perl -MIO::Socket::INET -e 'print IO::Socket::INET->new("127.0.0.1:${port}") ? "reached" : "refused"'`,
  );
  assert.equal(text, 'refused');
});

test('network host: the machine’s network as it is', async (t) => {
  const { sh } = await open(t, { network: 'host' });
  const { port, close } = await listen('127.0.0.1');
  t.after(close);
  const { text } = await sh(
    `perl -MIO::Socket::INET -e 'print IO::Socket::INET->new("127.0.0.1:${port}") ? "reached" : "refused"'`,
  );
  assert.equal(text, 'reached');
});

test('a fork bomb meets its limit and is cleared away [promise: build-limits]', async (t) => {
  const { sh, logged } = await open(t);
  if (!/cgroup v/.test(logged.join())) return t.skip('needs control groups');
  const ended = await sh('bomb() { bomb | bomb & }; bomb; sleep 60', {
    limits: { ...usualLimits, processes: 60, timeoutMs: 1500 },
  });
  assert.ok(ended.reason === 'timed_out' || ended.exitStatus !== 0);
  assert.equal((await sh('echo alive')).text, 'alive\n');
});

test('a memory hog is killed and called by its name [promise: build-limits]', async (t) => {
  const { sh, logged } = await open(t);
  if (!/cgroup v/.test(logged.join())) return t.skip('needs control groups');
  const limits = { ...usualLimits, memoryBytes: 64 * megabyte };
  const hog = await sh(`perl -e '$x = "x" x (400 * 1024 * 1024); print length $x'`, { limits });
  assert.deepEqual([hog.reason, hog.text.includes('4194')], ['out_of_memory', false]);
  assert.deepEqual(await sh('exit 3', { limits }), { exitStatus: 3, step: 'suite', reason: null, text: '' });
  const shared = await sh('head -c 300M /dev/zero > /dev/shm/x', { limits });
  assert.equal(shared.reason, 'out_of_memory');
});

test('a disk filler is ended before the disk is full [promise: build-limits]', { skip: lacks('mounts') }, async (t) => {
  const small = await smallFileSystem(96);
  const { sh } = await open(t, { stateDir: small.folder, diskReserveBytes: 48 * megabyte }, small.remove);
  const ended = await sh('head -c 40M /dev/zero > a; head -c 20M /dev/zero > b; sleep 60');
  assert.equal(ended.reason, 'out_of_disk');
  assert.equal((await sh('head -c 1M /dev/zero > a && echo fine')).text, 'fine\n');
});

test('so is one that makes files without end', { skip: lacks('mounts') }, async (t) => {
  const small = await smallFileSystem(96, 'nr_inodes=40000');
  const { sh } = await open(t, { stateDir: small.folder, diskReserveBytes: 0 }, small.remove);
  const ended = await sh('for i in $(seq 37900); do : > $i; done; sleep 60');
  assert.equal(ended.reason, 'out_of_disk', ended.text);
  assert.equal((await sh(': > a && echo fine')).text, 'fine\n');
});

test('no process outside can be traced or read, neither the runner nor another build', async (t) => {
  const { sh } = await open(t);
  const neighbour = Promise.withResolvers<void>();
  const left = new AbortController();
  const other = sh('echo there; sleep 60', {
    environment: { NEIGHBOUR: 'neighbour-of-a-tracer' },
    output: () => neighbour.resolve(),
    signal: left.signal,
  });
  await neighbour.promise;
  const pids = [process.pid, process.ppid, ...marked('neighbour-of-a-tracer')];
  const attach = `import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
for pid in [${pids.join(', ')}]:
    if libc.ptrace(16, pid, None, None) == 0: print('traced', pid)
    for name in ('mem', 'environ', 'root', 'cwd/x'):
        try: open(f'/proc/{pid}/{name}', 'rb'); print('opened', pid, name)
        except OSError: pass
print('tried')`;
  const { text } = await sh(`python3 - <<'END'\n${attach}\nEND`);
  left.abort();
  await other;
  assert.equal(text, 'tried\n');
});

test('a process that ignores SIGTERM is killed three seconds later', async (t) => {
  const { sh } = await open(t);
  const cancel = new AbortController();
  let asked = 0;
  const ended = await sh(`trap '' TERM; echo deaf; while :; do sleep 0.1; done`, {
    signal: cancel.signal,
    // Not before it is deaf: a time limit could be over before the shell comes to its trap.
    output: () => {
      asked = performance.now();
      cancel.abort();
    },
  });
  const took = performance.now() - asked;
  assert.deepEqual([ended.reason, ended.exitStatus, ended.wasForced], ['cancelled', null, true]);
  assert.ok(took >= 2900, `${took} ms`);
});

test('a daemon that detaches in every way ends with the run, and does not hold it up [promise: build-processes]', async (t) => {
  const { sh } = await open(t);
  const daemon = `perl -e 'exit if fork; require POSIX; POSIX::setsid(); exit if fork; $SIG{$_}="IGNORE" for qw(TERM HUP INT); sleep 600' &`;
  const ended = await sh(`${daemon} (sleep 600; echo late) & echo last word; exit 3`);
  assert.deepEqual([ended.exitStatus, ended.text], [3, 'last word\n']);
});

test('a command that closes its output goes on until it ends', async (t) => {
  const { sh, folder } = await open(t);
  const prefix = join(folder, 'prefix');
  await mkdir(prefix);
  const ended = await sh('echo before; exec >&- 2>&-; sleep 0.3; echo done > /srv/x/result; exit 6', {
    mounts: [{ at: '/srv/x', writable: prefix }],
  });
  assert.deepEqual([ended.exitStatus, ended.text], [6, 'before\n']);
  assert.equal(readFileSync(join(prefix, 'result'), 'utf8'), 'done\n');
});

test('a build cannot kill its own leader, and what it tells it does not make it pass [promise: build-verdict]', async (t) => {
  const { sh } = await open(t);
  const ended = await sh('kill -9 $PPID; kill -9 -1; exit 3');
  assert.deepEqual([ended.exitStatus, ended.step, ended.reason], [3, 'suite', null]);
  const steps = ['kill $PPID', 'echo the next one runs'].map((command, at) => ({ name: `step ${at}`, command }));
  const stopped = await sh(steps);
  assert.deepEqual([stopped.exitStatus, stopped.step, stopped.text], [143, 'step 0', '']);
});

test('an orphan is reaped while the command goes on', async (t) => {
  const { sh } = await open(t);
  const orphan = 'orphan=$(sleep 0.2 >/dev/null & echo $!)';
  const { text } = await sh(`${orphan}; while [ -e /proc/$orphan ]; do sleep 0.05; done; echo over`);
  assert.equal(text, 'over\n');
});

test('100 MB on one line pass through bounded memory, to the byte', async (t) => {
  const { sh } = await open(t);
  const size = 100 * megabyte;
  let [seen, most] = [0, 0];
  const before = process.memoryUsage().rss;
  const ended = await sh(`head -c ${size} /dev/zero | tr '\\0' x`, {
    output: async (chunk) => {
      seen += chunk.length;
      await new Promise((resolve) => setImmediate(resolve));
      most = Math.max(most, process.memoryUsage().rss - before);
    },
  });
  assert.deepEqual([ended.exitStatus, seen], [0, size]);
  // Node's own young objects may take up to 48 MB of that, whoever makes them.
  assert.ok(most < 80 * megabyte, `memory grew by ${most}`);
});

test('output is held back while nobody takes it', async (t) => {
  const { sh } = await open(t);
  const gate = Promise.withResolvers<void>();
  const begun = Promise.withResolvers<void>();
  let taken = 0;
  const ended = sh('head -c 8M /dev/zero', {
    output: async (chunk) => {
      taken += chunk.length;
      begun.resolve();
      await gate.promise;
    },
  });
  await begun.promise;
  await new Promise((resolve) => setTimeout(resolve, 300)); // time for more of it to come, if it could
  assert.ok(taken > 0 && taken <= 64 * 1024, `${taken} bytes were taken`);
  gate.resolve();
  assert.equal((await ended).exitStatus, 0);
  assert.equal(taken, 8 * megabyte);
});

async function listen(host: string): Promise<{ port: number; close: () => void }> {
  const server = createServer((socket) => socket.end());
  server.listen(0, host);
  await once(server, 'listening');
  const address = server.address();
  return { port: typeof address === 'object' ? (address?.port ?? 0) : 0, close: () => void server.close() };
}

async function smallFileSystem(
  megabytes: number,
  more = 'mode=755',
): Promise<{ folder: string; remove: () => Promise<void> }> {
  const folder = await mkdtemp('/tmp/headrace-small-');
  assert.equal((await run('mount', ['-t', 'tmpfs', '-o', `size=${megabytes}m,${more}`, 'small', folder])).status, 0);
  return {
    folder,
    remove: async () => {
      assert.equal((await run('umount', [folder])).status, 0);
      await rm(folder, { recursive: true });
    },
  };
}
