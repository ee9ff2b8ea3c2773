import assert from 'node:assert/strict';
import { lstat, mkdir, mkdtemp, readdir, readFile, writeFile } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import { removeTree } from '../../../src/shared/lib/remove-tree.ts';
import type { Way } from '../../../src/runner/git/channel.ts';
import { openSessions, type Sessions } from '../../../src/runner/git/sessions.ts';
import { openSandboxes } from '../../../src/runner/sandbox/index.ts';
import { longestWait } from '../../support/pauses.ts';
import { lacks } from '../../support/machine.ts';

const { signal } = new AbortController();
const megabyte = 1024 * 1024;
const limits = { memoryBytes: 256 * megabyte, processes: 64, timeoutMs: longestWait };

/** Only one name leads to where one may call. */
const rules = {
  mayCall: (address: string) => address === '127.0.0.1',
  resolve: async (host: string) => [{ address: host === 'open.test' ? '127.0.0.1' : '10.0.0.7', family: 4 }],
};

async function place(t: TestContext): Promise<{ folder: string; directory: string; sessions: Sessions }> {
  const folder = await mkdtemp(join(tmpdir(), 'git-sessions-'));
  const sandboxes = await openSandboxes({
    stateDir: join(folder, 'sandboxes'),
    network: 'none',
    etc: 'bare',
    isolation: 'required',
    log: () => {},
  });
  const sockets = join(folder, 'run');
  const directory = join(folder, 'repository');
  for (const path of [sockets, directory]) await mkdir(path, { mode: 0o700 });
  const sessions = openSessions({ sandboxes, isolation: 'required', folder: sockets, limits, proxy: { rules } });
  t.after(async () => {
    await sandboxes.close();
    await sessions.close();
    await removeTree(folder);
  });
  return { folder, directory, sessions };
}

test('a program in the place of git sees its directory, and nothing of the machine', async (t) => {
  const { folder, directory, sessions } = await place(t);
  await writeFile(join(folder, 'secret'), 'of the runner');
  await writeFile(join(directory, 'here'), 'the repository');
  const listener = createServer().listen(0, '127.0.0.1');
  t.after(() => listener.close());
  await once(listener, 'listening');
  const { port } = listener.address() as AddressInfo;
  const tries = [
    'cat /etc/shadow',
    `cat ${folder}/secret`,
    `ls ${folder}`,
    `cat /proc/${process.pid}/environ`,
    `kill -0 ${process.pid}`,
    `perl -MIO::Socket::INET -e 'exit !IO::Socket::INET->new("127.0.0.1:${port}")'`,
    'touch /session/x',
    'rm /session/runner',
    'touch /usr/x',
  ];
  const script = tries.map((attempt, number) => `(${attempt}) >/dev/null 2>&1 && echo ${number} worked`).join('\n');
  const said = await sessions.use({ directory, access: 'write', signal }, async (session) => {
    assert.equal((await session.run(['cat', join(session.directory, 'here')])).stdout.toString(), 'the repository');
    await session.run(['touch', join(session.directory, 'made')]);
    return session.run(['sh', '-c', `${script}\nid -u; exit 0`]);
  });
  assert.equal(said.stdout.toString(), '1000\n');
  const made = await lstat(join(directory, 'made'));
  assert.equal(made.uid, sessions.owner.uid);
  assert.notEqual(made.uid, 0);
});

test('a program in the place of git runs the one command that it may, and no other [promise: git-sandbox]', async (t) => {
  const { directory, sessions } = await place(t);
  const asked: string[] = [];
  const way: Way = {
    services: {
      'git-upload-pack': (socket) => {
        asked.push('git-upload-pack');
        socket.end('of the remote');
        return { end: async () => Buffer.from('what ssh said'), kill: () => {} };
      },
    },
  };
  const script = 'eval "$GIT_SSH_COMMAND \\"\\$@\\""'; // as git does it
  const ask = (command: string): string[] => ['sh', '-c', script, 'sh', 'host', command];
  await sessions.use({ directory, access: 'read', signal, way }, async ({ run }) => {
    const said = await run(ask("git-upload-pack 'anything'"));
    assert.deepEqual([said.stdout.toString(), said.ssh.toString()], ['of the remote', 'what ssh said']);
    for (const other of ["git-receive-pack 'app.git'", "git-lfs-authenticate 'app.git'", 'id', '../x y']) {
      assert.notEqual((await run(ask(other))).status, 0, other);
    }
  });
  assert.deepEqual(asked, ['git-upload-pack']);
  await sessions.use({ directory, access: 'read', signal }, async ({ run }) => {
    assert.notEqual((await run(ask("git-upload-pack 'anything'"))).status, 0);
  });
});

test('a session that may call public addresses calls no others [promise: git-addresses] [promise: git-limits]', async (t) => {
  const { directory, sessions } = await place(t);
  let calls = 0;
  const listener = createServer((socket) => {
    calls += 1;
    socket.on('error', () => {}).write('x'.repeat(megabyte));
  });
  listener.listen(0, '127.0.0.1');
  t.after(() => listener.close());
  await once(listener, 'listening');
  const { port } = listener.address() as AddressInfo;
  const call = (url: string): string[] => ['curl', '-sS', '-o', '/dev/null', '-w', '%{http_code}', '-m', '20', url];
  const way = { https: { bytes: 1000 } };
  const troubles = await sessions.use({ directory, access: 'read', signal, way }, async ({ run }) => {
    for (const closed of [`https://inside.test:${port}`, `https://10.0.0.7:${port}`, `https://open.test:${port}`])
      assert.notEqual((await run(call(closed))).status, 0, closed);
    assert.equal(calls, 1, 'the one that is allowed was called, and sent too much');
    assert.equal((await run(call(`http://open.test:${port}`))).stdout.toString(), '405', 'nothing goes unencrypted');
    return (await run(['true'])).troubles;
  });
  assert.deepEqual([...troubles], ['forbidden', 'forbidden', 'too_much']);
  assert.equal(calls, 1);
});

test('a reading session changes nothing', async (t) => {
  const { directory, sessions } = await place(t);
  await sessions.use({ directory, access: 'read', signal }, async (session) => {
    const { status, stderr } = await session.run(['touch', join(session.directory, 'x')]);
    assert.equal(status, 1);
    assert.match(stderr.toString(), /Read-only/);
  });
  assert.deepEqual(await readdir(directory), []);
});

test('commands follow each other with their input, output and status', async (t) => {
  const { directory, sessions } = await place(t);
  await sessions.use({ directory, access: 'read', signal }, async ({ run }) => {
    const heard: string[] = [];
    const onStderr = async (chunk: Buffer): Promise<void> => void heard.push(chunk.toString());
    const first = await run(['sh', '-c', 'cat; echo heard >&2; exit 3'], { input: 'in', onStderr });
    assert.deepEqual([first.status, first.stdout.toString(), first.truncated], [3, 'in', false]);
    assert.equal(heard.join(''), 'heard\n');
    const cut = await run(['yes'], { maxOutput: 1000 });
    assert.deepEqual([cut.truncated, cut.stdout.length], [true, 1000]);
    assert.equal((await run(['printf', '%s|', '', 'a b', "it's\n"])).stdout.toString(), "|a b|it's\n|");
    assert.equal((await run(['no-such-program'])).status, 127);
    assert.equal((await run(['sh', '-c', 'kill -9 $$'])).status, 137);
  });
});

test('output that is not in the protocol ends a session', async (t) => {
  const { directory, sessions } = await place(t);
  const lies = ['z\\000\\000\\000\\000', 'o\\377\\377\\377\\377', 'x\\000\\000\\000\\0039 9', 'x\\000\\000\\000\\0010'];
  for (const lie of lies) {
    const lying = sessions.use({ directory, access: 'read', signal }, ({ run }) =>
      run(['sh', '-c', `printf '${lie}' > /proc/$PPID/fd/1; exec sleep 1000`]),
    );
    await assert.rejects(lying, /a frame is too large|a frame of unknown kind|a malformed end/, lie);
  }
  const more = sessions.use({ directory, access: 'read', signal }, ({ run }) =>
    run(['sh', '-c', `printf 'o\\000\\000\\000\\003abc' > /proc/$PPID/fd/1; exec sleep 1000`], { maxOutput: 2 }),
  );
  await assert.rejects(more, /more output than allowed/);
});

test('memory and time that a session may not have end it in words', async (t) => {
  const { directory, sessions } = await place(t);
  const hungry = sessions.use({ directory, access: 'read', signal }, async ({ run }) => {
    const { status } = await run(['perl', '-e', '$x = "x" x (900 * 1024 * 1024); print length $x']);
    assert.equal(status, 137);
    throw new Error('it failed');
  });
  await assert.rejects(hungry, { kind: 'out_of_memory' });
  const slow = sessions.use({ directory, access: 'read', signal, limits: { timeoutMs: 500 } }, ({ run }) =>
    run(['sleep', '1000']),
  );
  await assert.rejects(slow, { kind: 'fetch_timed_out' });
});

test('a repository of an older runner is given to those who work on it now', { skip: lacks('root') }, async (t) => {
  const { directory, folder, sessions } = await place(t);
  await writeFile(join(folder, 'elsewhere'), 'x', { mode: 0o600 });
  await mkdir(join(directory, 'objects'), { mode: 0o700 });
  await writeFile(join(directory, 'objects', 'a'), 'a', { mode: 0o400 });
  await sessions.use({ directory, access: 'read', signal }, async ({ run, directory: inside }) => {
    assert.equal((await run(['cat', join(inside, 'objects', 'a')])).stdout.toString(), 'a');
  });
  assert.equal((await lstat(join(directory, 'objects', 'a'))).uid, sessions.owner.uid);
  assert.equal(await readFile(join(folder, 'elsewhere'), 'utf8'), 'x');
});
