import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import type { EndedStep, Job, NextStep } from '../../../src/runner/sandbox/types.ts';
import { rootUser } from '../../../src/runner/sandbox/types.ts';
import { putPrograms } from '../../support/busybox.ts';
import { lacks } from '../../support/machine.ts';
import { open, tree, type Bench } from './support.ts';

const skip = lacks('root', 'tun');

const commands = (...all: string[]): Job['steps'] => all.map((command, at) => ({ name: `step ${at}`, command }));

/** Runs steps with a stage after each. Returns what `seal` answered, and the directories that were kept. */
async function staged(bench: Bench, steps: Job['steps'], changes: Partial<Job> = {}) {
  const sealed: (number | undefined)[] = [];
  const kept = join(bench.folder, `kept-${Math.random()}`);
  const stages: string[] = [];
  const ran = await bench.sh(steps, {
    isStaged: true,
    workspace: { checkout: await tree(join(bench.folder, `checkout-${Math.random()}`), { 'commit.txt': 'commit\n' }) },
    next: async ({ at, status, seal }: EndedStep): Promise<NextStep | undefined> => {
      if (status !== 0 || at + 1 === steps.length) return undefined;
      sealed.push((await seal?.())?.stages);
      return { at: at + 1, environment: {} };
    },
    onLeft: async (left) => {
      stages.push(...left.stages);
      await left.keepWhole(kept);
    },
    ...changes,
  });
  return { ...ran, sealed, stages, kept };
}

test('a stage has what a run wrote before it, and later steps write over it', async (t: TestContext) => {
  const bench = await open(t);
  const steps = commands(
    'umask 022; cd sub 2>/dev/null || mkdir -p sub /tmp/t; echo one >sub/a; echo one >/tmp/t/a; echo one >~/a; rm commit.txt; chmod 750 .',
    'true',
    '[ "$PWD" = /build ]; cat sub/a /tmp/t/a ~/a; echo two >>sub/a; rm -r /tmp/t; echo two >~/b; ls; stat -c %a .',
    'cat sub/a ~/a ~/b; [ ! -e /tmp/t ]; touch -d 2001-01-01 . ; ln -s / sub/link; exit 3',
  );
  const ran = await staged(bench, steps);
  assert.deepEqual([ran.text, ran.exitStatus], ['one\none\none\nsub\n750\none\ntwo\none\ntwo\n', 3]);
  assert.deepEqual(ran.sealed, [1, 1, 2]);
  assert.deepEqual(ran.stages, ['stage-0', 'stage-1']);
  const [checkout, ...layers] = [join(bench.folder, 'other'), ...ran.stages.map((one) => join(ran.kept, one))];
  mkdirSync(checkout);
  const again = await staged(
    bench,
    commands('cat sub/a ~/a; ls ~; ls /tmp; echo >~/c; echo >d; echo >/tmp/e', 'ls . ~ /tmp'),
    {
      workspace: { checkout, over: [join(layers[0] ?? '', 'changes')] },
      home: [join(layers[0] ?? '', 'home')],
      tmp: [join(layers[0] ?? '', 'tmp')],
    },
  );
  assert.equal(again.text, 'one\none\na\nt\n.:\nd\nsub\n\n/home/build:\na\nc\n\n/tmp:\ne\nt\n');
  assert.deepEqual(again.sealed, [1]);
});

test('nothing is sealed while a process of the run lives', async (t) => {
  const bench = await open(t);
  const steps = commands(
    'echo 1 >a; (while [ ! -e end ]; do sleep 0.01; done; echo late >>a; touch ended) >/dev/null 2>&1 &',
    'cat a; touch end; while [ ! -e ended ]; do sleep 0.01; done; while ps -e -o stat=,comm= | grep -v ^Z | grep -q sleep; do :; done',
    'cat a',
  );
  const ran = await staged(bench, steps);
  assert.deepEqual([ran.text, ran.sealed[0], ran.exitStatus], ['1\n1\nlate\n', undefined, 0]);
});

test('in an image, root changes it between stages, and dependencies stay where they are', { skip }, async (t) => {
  const bench = await open(t);
  const image = await tree(join(bench.folder, 'image'), {
    'data/of-image': 'image\n',
    'opt/x': '',
    'top.txt': 'top\n',
  });
  await putPrograms(image, ['sh', 'cat', 'ls', 'mkdir', 'rm', 'mv', 'chown', 'stat', 'touch']);
  const layer = await tree(join(bench.folder, 'software'), { tool: 'software\n' });
  for (const path of [image, layer]) await bench.sandboxes.adopt(path);
  const steps = commands(
    'echo one >/data/one; rm /data/of-image; echo more >>/top.txt; echo s >/opt/own; chown 7:8 /build /data/one; touch mine',
    'ls /data; cat /data/one /top.txt /opt/tool/tool /build/in/tool; stat -c %u:%g /build /data/one; echo two >>/data/one; ls mine',
    'cat /data/one; mkdir /added; echo three >/data/three',
    'ls /data; ls -d /added; rm -r /added',
    'ls /',
  );
  const ran = await staged(bench, steps, {
    image,
    user: rootUser,
    mounts: [
      { at: '/opt/tool', layers: [layer] },
      { at: '/build/in', layers: [layer] },
    ],
  });
  const software = 'software\nsoftware\n';
  const expected = `one\none\ntop\nmore\n${software}7:8\n7:8\nmine\none\ntwo\none\nthree\n/added\n`;
  assert.ok(ran.text.startsWith(expected), ran.text);
  assert.deepEqual([ran.sealed, ran.exitStatus], [[1, 2, undefined, 3], 0]);
  const above = ran.stages.slice(0, 1).map((one) => join(ran.kept, one, 'image-changes'));
  const next = { image, user: rootUser, imageLayers: { below: [], above } };
  const again = await bench.sh('ls /data; cat /data/one', next);
  assert.equal(again.text, 'one\none\n', 'only what the first step left');
});
