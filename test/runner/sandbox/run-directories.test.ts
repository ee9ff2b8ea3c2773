import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { run } from '../../../src/shared/lib/processes.ts';
import { open, tree } from './support.ts';
import { lacks } from '../../support/machine.ts';

/** Longer than any file system's step of time: directories of an idle slot are certain to be of the past. */
const idleMs = 60;
const [SETXATTR, LISTXATTR] = process.arch === 'x64' ? [188, 194] : [5, 11];
const attributes = `perl -e 'for (qw(/build /tmp)) { my $p = $_; my $b = " " x 999; print "$p ", syscall(${LISTXATTR}, $p, $b, 999), "\\n" }'`;
const look = `stat -c "%a %U %n" /build /tmp ~; ls -A /build /tmp ~ | wc -w; ${attributes}`;

test('whatever a run does to its directories, the next finds them as new', async (t) => {
  const { sh, folder, sandboxes } = await open(t);
  const checkout = await tree(join(folder, 'checkout'), { 'a.txt': 'original\n' });
  await sandboxes.adopt(checkout);
  const workspace = { checkout };
  const asNew = await sh(look, { workspace });
  const touches = [
    'true',
    'chmod 700 /build /tmp ~',
    'touch /build/x /tmp/x ~/x; rm /build/x /tmp/x ~/x; chmod 711 /build',
    'mkdir -p /build/a/b /tmp/a/b; chmod 0 /build/a /tmp/a',
    'echo changed > a.txt',
    'rm a.txt',
    `perl -e 'for (qw(/build /tmp)) { my ($p, $n, $v) = ($_, "user.mark", "seen"); syscall(${SETXATTR}, $p, $n, $v, 4, 0) == 0 or die $! }' && ${attributes}`,
    'cat a.txt',
  ];
  for (const pause of [0, idleMs]) {
    for (const touch of touches) {
      assert.equal((await sh(touch, { workspace })).exitStatus, 0, touch);
      await delay(pause);
      const next = await sh(`${look}; cat a.txt`, { workspace });
      assert.equal(next.text, `${asNew.text}original\n`, `after ${touch}`);
    }
  }
});

test('another checkout, or a new one at the same path, is seen at once', async (t) => {
  const { sh, folder, sandboxes } = await open(t);
  const make = async (name: string, text: string): Promise<string> => {
    const checkout = await tree(join(folder, name), { 'a.txt': text });
    await sandboxes.adopt(checkout);
    return checkout;
  };
  const [one, two] = [await make('one', 'one'), await make('two', 'two')];
  const seen: string[] = [];
  for (const checkout of [one, one, two, one]) {
    await delay(idleMs);
    seen.push((await sh('cat a.txt', { workspace: { checkout } })).text);
  }
  await rm(one, { recursive: true });
  await make('one', 'again');
  seen.push((await sh('cat a.txt', { workspace: { checkout: one } })).text);
  assert.deepEqual(seen, ['one', 'one', 'two', 'one', 'again']);
});

test('where no overlay is possible, workspaces and layers are copies', { skip: lacks('mounts') }, async (t) => {
  const base = await mkdtemp(join(tmpdir(), 'headrace-copy-'));
  const [lower, upper, work, merged] = ['lower', 'upper', 'work', 'merged'].map((name) => join(base, name)) as [
    string,
    string,
    string,
    string,
  ];
  for (const path of [lower, upper, work, merged]) await mkdir(path);
  const options = `lowerdir=${lower},upperdir=${upper},workdir=${work}`;
  assert.equal((await run('mount', ['-t', 'overlay', '-o', options, 'overlay', merged])).status, 0);
  const { sh, folder, sandboxes, logged } = await open(t, { stateDir: merged }, async () => {
    await run('umount', [merged]);
    await rm(base, { recursive: true });
  });
  assert.match(logged.join('\n'), /workspaces are copied/);
  const checkout = await tree(join(folder, 'checkout'), { 'a.txt': 'original\n' });
  const layers = [
    await tree(join(folder, 'l1'), { tool: 'one\n', more: 'more\n' }),
    await tree(join(folder, 'l2'), { tool: 'two\n' }),
  ];
  await sandboxes.adopt(checkout);
  for (const expected of ['original\ntwo\nmore\n', 'original\ntwo\nmore\n']) {
    const ran = await sh('cat a.txt /srv/d/tool /srv/d/more; echo changed > a.txt', {
      workspace: { checkout },
      mounts: [{ at: '/srv/d', layers }],
    });
    assert.equal(ran.text, expected);
  }
  // A link in one layer, and a file of that name in the next.
  const victim = join(folder, 'victim');
  await writeFile(victim, 'untouched\n');
  const astray = [join(folder, 'l3'), await tree(join(folder, 'l4'), { tool: 'written\n' })];
  await mkdir(join(folder, 'l3'));
  await symlink(victim, join(folder, 'l3', 'tool'));
  const laidOver = await sh('cat /srv/d/tool', { mounts: [{ at: '/srv/d', layers: astray }] });
  assert.deepEqual([laidOver.text, await readFile(victim, 'utf8')], ['written\n', 'untouched\n']);
});
