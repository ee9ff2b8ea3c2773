import assert from 'node:assert/strict';
import { existsSync, readdirSync, symlinkSync } from 'node:fs';
import { chmod, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import test from 'node:test';
import { open, tree } from './support.ts';

test('mounts of one run, and the directories on the way to them, are gone for the next', async (t) => {
  const { sh, folder } = await open(t);
  const software = await tree(join(folder, 'software'), { tool: 'a tool\n' });
  const look = 'ls -A / /srv /var /opt 2>/dev/null | sort | tr "\\n" " "';
  const before = (await sh(look)).text;
  const mounts = ['/opt/deep/down', '/srv/a', '/srv/b', '/var/lib/c'].map((at) => ({ at, layers: [software] }));
  for (let turn = 0; turn < 3; turn += 1) {
    const seen = await sh('cat /opt/deep/down/tool /srv/a/tool /srv/b/tool /var/lib/c/tool', { mounts });
    assert.equal(seen.text, 'a tool\n'.repeat(4));
    for (let area = 0; area < 2; area += 1) assert.equal((await sh(look)).text, before);
  }
});

test('a place may have any name that a path can have', async (t) => {
  const { sh, folder } = await open(t);
  const software = await tree(join(folder, 'software'), { tool: 'a tool\n' });
  for (const at of ['/opt/two\nlines', '/opt/a b\'c"$HOME', '/opt/ é\x01', '/opt/\n']) {
    const { text } = await sh('cat "$PLACE/tool"', {
      mounts: [{ at, layers: [software] }],
      environment: { PLACE: at },
    });
    assert.equal(text, 'a tool\n', JSON.stringify(at));
  }
});

test('a link in one piece of software does not lead the mount of another astray', async (t) => {
  const { sh, folder } = await open(t);
  const target = join(folder, 'target');
  await mkdir(target);
  const outer = await tree(join(folder, 'outer'), { file: '' });
  symlinkSync(target, join(outer, 'inner'));
  symlinkSync('/usr', join(outer, 'programs'));
  const inner = await tree(join(folder, 'inner'), { planted: '', 'bin/sh': 'not a shell' });
  for (const at of ['/srv/outer/inner', '/srv/outer/inner/new', '/srv/outer/programs']) {
    const mounts = [
      { at: '/srv/outer', layers: [outer] },
      { at, layers: [inner] },
    ];
    await assert.rejects(sh('true', { mounts }), /a link stands in its way/);
  }
  assert.deepEqual(readdirSync(target), []);
  assert.ok(!existsSync('/usr/planted'));
  assert.equal((await sh('echo as ever')).text, 'as ever\n');
});

test('every mount is without devices and set-user-id, and only what is to be written to can be', async (t) => {
  const { sh, folder, sandboxes } = await open(t);
  const checkout = await tree(join(folder, 'checkout'), { 'a.txt': '' });
  await sandboxes.adopt(checkout);
  const [layer, another] = [
    await tree(join(folder, 'layer'), { a: '' }),
    await tree(join(folder, 'another'), { b: '' }),
  ];
  const writable = join(folder, 'writable');
  await mkdir(writable);
  const mounts = [
    { at: '/opt/one', layers: [layer] },
    { at: '/opt/both', layers: [layer, another] },
    { at: '/opt/out', writable },
  ];
  const look = `while read -r _ _ _ _ place options _; do echo "$place $options"; done </proc/self/mountinfo`;
  for (const workspace of [{ checkout }, { empty: true } as const, { directory: writable }]) {
    const { text } = await sh(look, { mounts, workspace });
    const options = new Map(text.split('\n').map((line) => line.split(' ') as [string, string]));
    for (const place of ['/', '/build', '/tmp', '/home/build', '/usr', '/etc', '/opt/one', '/opt/both', '/opt/out']) {
      const known = options.get(place)?.split(',') ?? [];
      assert.ok(known.includes('nosuid') && known.includes('nodev'), `${place} has ${known.join(' ')}`);
      const isWritable = ['/build', '/tmp', '/home/build', '/opt/out'].includes(place);
      const isReadOnly = known.includes('ro');
      if (place !== '/opt/both') assert.equal(isReadOnly, !isWritable, `${place} has ${known.join(' ')}`); // an overlay of layers alone takes nothing
    }
  }
});

test('a variable may have a name that the shell uses itself', async (t) => {
  const { sh } = await open(t);
  const environment = { status: 'mine', stopped: 'mine', IFS: '0123456789', finish: 'mine', PS4: '$', UID: '7' };
  const steps = ['exit 0', 'printf "%s " "$status" "$stopped" "$finish" "$PS4"; exit 10'].map((command, index) => ({
    name: `step ${index}`,
    command,
  }));
  assert.deepEqual(await sh(steps, { environment }), {
    exitStatus: 10,
    step: 'step 1',
    reason: null,
    text: 'mine mine mine $ ',
  });
});

test('a run has the variables it is given, where it is, and no others', async (t) => {
  const { sh } = await open(t);
  const { text } = await sh('env | sort', { environment: { GIVEN: 'yes' } });
  const names = text.split('\n').flatMap((line) => line.split('=')[0] || []);
  const forLaterSteps = ['HEADRACE_ENV', 'HEADRACE_SECRET_ENV', 'HEADRACE_SUMMARY'];
  const usual = ['HOME', 'LANG', 'LOGNAME', 'PATH', 'PWD', 'SHELL', 'TEST_MARK', 'USER'];
  assert.deepEqual(names, ['GIVEN', ...forLaterSteps, ...usual]);
});

test('a script that is longer than a pipe holds arrives whole', async (t) => {
  const { sh } = await open(t);
  const steps = Array.from({ length: 20 }, (_, index) => ({
    name: `step ${index}`,
    command: `: ${'x'.repeat(50_000)}\necho ${index}`,
  }));
  assert.equal((await sh(steps)).text, steps.map((_, index) => `${index}\n`).join(''));
});

test('a workspace that may not be written to is one all the same', async (t) => {
  const { sh, folder } = await open(t);
  const directory = await tree(join(folder, 'source'), { 'a.txt': 'original\n' });
  await chmod(directory, 0o555);
  const { text } = await sh('cat a.txt; ls -A | wc -l', { workspace: { directory } });
  await chmod(directory, 0o755); // or nobody but root could remove what is in it
  assert.equal(text, 'original\n1\n');
});

test('devices are those that programs expect, and each run has terminals and shared memory of its own', async (t) => {
  const { sh } = await open(t, { prepare: 2 });
  const look =
    'echo x > /dev/null && head -c 4 /dev/urandom | wc -c && head -c 4 /dev/zero | wc -c && ls /dev | tr "\\n" " "; ' +
    // The other run has its terminal open at the same time.
    `script -qec 'tty; stty -a >/dev/null && touch /dev/shm/mine && sleep 1; ls /dev/pts /dev/shm | tr "\\n" " "' /dev/null | tr -d '\\r'`;
  const devices = 'core fd full null ptmx pts random shm stderr stdin stdout tty urandom zero';
  for (const { text } of await Promise.all([sh(look), sh(look)]))
    assert.equal(text, `4\n4\n${devices} /dev/pts/0\n/dev/pts: 0 ptmx  /dev/shm: headrace mine `);
});

test('devices are the same for all runs, and none can change them', async (t) => {
  const { sh } = await open(t);
  const attempts = [
    'rm -f /dev/null',
    'chmod 600 /dev/zero',
    'touch /dev/full',
    'mv /dev/tty /dev/x',
    'ln /dev/null /dev/x',
  ];
  const { text } = await sh(
    attempts.map((one) => `(${one}) 2>/dev/null && echo 'worked: ${one}'; `).join('') + 'echo tried',
  );
  assert.equal(text, 'tried\n');
});
