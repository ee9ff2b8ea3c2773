import assert from 'node:assert/strict';
import {
  chownSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { cp, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import test from 'node:test';
import { run } from '../../../src/shared/lib/processes.ts';
import { removeTree } from '../../../src/shared/lib/remove-tree.ts';
import type { Job } from '../../../src/runner/sandbox/types.ts';
import { isRoot, open, tree } from './support.ts';
import { busybox } from '../../support/busybox.ts';
import { lacks } from '../../support/machine.ts';

/*
 * Strangers fill the directories that a run is shown: layers of caches, software, images, what a build left. Whatever
 * stands at their place in the end, the helper outside of all sandboxes takes a directory, and nothing else.
 */

const user = 60_916;
const refusal = /a link stands in its way|Not a directory|is not a directory/;

test('what a run is shown is never reached through a link [promise: build-files]', async (t) => {
  const { sh, folder, sandboxes } = await open(t);
  const target = await tree(join(folder, 'target'), { 'inner/secret': 'of the machine', secret: 'of the machine' });
  const good = await tree(join(folder, 'good'), { file: '' });
  const image = join(folder, 'image');
  await mkdir(join(image, 'bin'), { recursive: true });
  await cp(busybox, join(image, 'bin/sh'));
  for (const path of [good, image]) await sandboxes.adopt(path);
  for (const path of ['', 'secret', 'inner', 'inner/secret']) if (isRoot) chownSync(join(target, path), 4711, 4711);
  mkdirSync(join(folder, 'made'));
  symlinkSync(target, join(folder, 'made/link'));
  symlinkSync(join(target, 'secret'), join(folder, 'made/file-link'));
  writeFileSync(join(folder, 'made/file'), 'of the machine');
  const at = '/srv/shown';
  const shapes: Record<string, (source: string) => Partial<Job>> = {
    'a checkout': (source) => ({ workspace: { checkout: source } }),
    'a layer over a checkout': (source) => ({ workspace: { checkout: good, over: [source] } }),
    'a workspace': (source) => ({ workspace: { directory: source } }),
    'layers of a workspace': (source) => ({ workspace: { layers: [good, source] } }),
    software: (source) => ({ mounts: [{ at, layers: [source] }] }),
    'software over another': (source) => ({ mounts: [{ at, layers: [source, good] }] }),
    'a directory to write to': (source) => ({ mounts: [{ at, writable: source }] }),
    'a directory to write to, over a layer': (source) => ({ mounts: [{ at, writable: source, layers: [good] }] }),
    'a layer under one': (source) => ({ mounts: [{ at, writable: good, layers: [source] }] }),
    'a layer of the home': (source) => ({ home: [source] }),
    'a layer of /tmp': (source) => ({ tmp: [source] }),
    'an image': (source) => ({ image: source }),
    'a layer over an image': (source) => ({ image, imageLayers: { below: [], above: [source] } }),
    'a layer below an image': (source) => ({ image, imageLayers: { below: [source], above: [] } }),
  };
  for (const [what, shape] of Object.entries(shapes))
    for (const source of ['made/link', 'made/link/inner', 'made/file', 'made/file-link'].map((name) =>
      join(folder, name),
    ))
      await assert.rejects(sh(`cat ${at}/* ./* ~/* /tmp/* /secret; echo bad >secret`, shape(source)), refusal, what);
  assert.deepEqual(readdirSync(target).toSorted(), ['inner', 'secret']);
  for (const path of ['secret', 'inner/secret'])
    assert.equal(readFileSync(join(target, path), 'utf8'), 'of the machine');
  for (const path of ['', 'inner'])
    assert.equal(statSync(join(target, path)).uid, isRoot ? 4711 : process.getuid?.(), 'and it belongs to whom it did');
  assert.equal((await sh('ls', { workspace: { checkout: good } })).text, 'file\n', 'and others go on');
});

test('an image whose files became links leads nowhere else [promise: image-places]', async (t) => {
  const { sh, folder, sandboxes } = await open(t);
  const target = await tree(join(folder, 'target'), { secret: 'of the machine' });
  const image = join(folder, 'image');
  for (const name of ['bin', 'opt', 'home/build']) await mkdir(join(image, name), { recursive: true });
  for (const name of ['sh', 'cat', 'ls']) await cp(busybox, join(image, 'bin', name));
  writeFileSync(join(image, 'note'), 'a note\n');
  await sandboxes.adopt(image);
  assert.equal((await sh('cat /note; ls /opt', { image })).text, 'a note\n');
  // What stands at the top is something else now: a link leads to what the sandbox has there, and that is nothing.
  for (const [name, leads] of [
    ['opt', target],
    ['note', join(target, 'secret')],
  ] as const) {
    renameSync(join(image, name), join(folder, name));
    symlinkSync(leads, join(image, name));
    const { text } = await sh('cat /note /opt/secret; ls /opt', { image });
    assert.doesNotMatch(text, /of the machine/);
    assert.match(text, /No such file/);
    renameSync(join(image, name), join(folder, `${name}-link`));
    renameSync(join(folder, name), join(image, name));
  }
  assert.equal((await sh('cat /note; ls /opt', { image })).text, 'a note\n');
});

test('what a failed build left is shown to a shell only as directories [promise: shell-files]', async (t) => {
  const { sh, folder } = await open(t);
  const target = await tree(join(folder, 'target'), { secret: 'of the machine' });
  const checkout = await tree(join(folder, 'checkout'), { file: '' });
  const files = join(folder, 'files');
  const onLeft: Job['onLeft'] = (left) => left.keepWhole(files);
  await sh('echo mine >mine; exit 1', { workspace: { checkout }, onLeft });
  const shell = (): Promise<unknown> =>
    sh('cat mine secret ~/secret /tmp/secret', {
      workspace: { checkout, over: [join(files, 'changes')] },
      home: [join(files, 'home')],
      tmp: [join(files, 'tmp')],
    });
  assert.match(JSON.stringify(await shell()), /mine/);
  for (const part of ['changes', 'home', 'tmp']) {
    renameSync(join(files, part), join(folder, 'aside'));
    symlinkSync(target, join(files, part));
    await assert.rejects(shell(), refusal, part);
    renameSync(join(files, part), join(folder, `link-${part}`));
    renameSync(join(folder, 'aside'), join(files, part));
  }
  await removeTree(files);
});

test(
  'an ordinary user’s sandboxes refuse the same [promise: build-files]',
  { skip: lacks('other users') },
  async () => {
    const node = [process.execPath, '--disable-warning=ExperimentalWarning', '--test', import.meta.filename];
    const ran = await run('setpriv', ['--reuid', `${user}`, '--regid', `${user}`, '--clear-groups', '--', ...node], {
      env: { PATH: process.env.PATH ?? '' },
    });
    assert.equal(ran.status, 0, ran.stdout.toString());
    assert.match(ran.stdout.toString(), /pass 3\n/);
  },
);
