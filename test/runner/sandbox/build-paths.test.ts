import assert from 'node:assert/strict';
import { symlinkSync } from 'node:fs';
import { chmod, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import { foldersOf } from '../../../src/runner/leftovers.ts';
import { open, tree } from './support.ts';
import { lacks } from '../../support/machine.ts';

const skip = lacks('root');

/** A directory of the machine as an operator has one: not among the temporary files, which builds have of their own. */
async function machineDirectory(t: TestContext): Promise<string> {
  const folder = await mkdtemp('/opt/headrace-shown-');
  t.after(() => rm(folder, { recursive: true, force: true }));
  await chmod(folder, 0o755);
  await tree(folder, {
    'bin/tool': '#!/bin/sh\necho from the machine\n',
    'share/text': 'shared\n',
    private: 'secret\n',
  });
  await chmod(join(folder, 'bin/tool'), 0o755);
  await chmod(join(folder, 'private'), 0o600);
  symlinkSync('/etc/shadow', join(folder, 'out'));
  return folder;
}

test(
  'directories of the machine are seen where they are, read-only, and nothing beside them [promise: build-files]',
  { skip },
  async (t) => {
    const shown = await machineDirectory(t);
    const beside = await machineDirectory(t);
    const { sh } = await open(t, { paths: [shown] });
    for (let count = 0; count < 2; count += 1) {
      const { text, exitStatus } = await sh(
        `${shown}/bin/tool; cat ${shown}/share/text; (echo x > ${shown}/new) 2>/dev/null && echo written; ` +
          `chmod 777 ${shown}/bin 2>/dev/null && echo changed; ls ${beside} 2>/dev/null && echo beside; ` +
          `cat ${shown}/out 2>/dev/null && echo led out; ls /opt`,
      );
      assert.equal(text, `from the machine\nshared\n${shown.split('/').at(-1)}\n`);
      assert.equal(exitStatus, 0);
    }
    assert.equal((await sh(`cat ${shown}/private 2>/dev/null || echo no`)).text, 'no\n');
  },
);

test('software stands inside such a directory, and around one', { skip }, async (t) => {
  const shown = await machineDirectory(t);
  const { sh, folder } = await open(t, { paths: [shown] });
  const software = await tree(join(folder, 'software'), { 'bin/made': 'made\n' });
  const inside = { mounts: [{ at: `${shown}/made`, layers: [software] }] };
  const { text } = await sh(`cat ${shown}/made/bin/made ${shown}/share/text; ls ${shown}`, inside);
  assert.equal(text, 'made\nshared\nbin\nmade\nout\nprivate\nshare\n');
  const { sh: deeper } = await open(t, { paths: [`${shown}/share`] });
  const around = { mounts: [{ at: shown, layers: [software] }] };
  assert.equal((await deeper(`cat ${shown}/bin/made ${shown}/share/text`, around)).text, 'made\nshared\n');
});

test('a directory of the machine may be named by a link, which counts as it was at the start', { skip }, async (t) => {
  const shown = await machineDirectory(t);
  const named = `${shown}-named`;
  symlinkSync(shown, named);
  t.after(() => rm(named, { force: true }));
  const { sh, folder, sandboxes } = await open(t, { paths: [`${named}/share`] });
  const look = `cat ${named}/share/text; ls ${named}`;
  assert.equal((await sh(look)).text, 'shared\nshare\n');
  const software = await tree(join(folder, 'software'), { made: 'made\n' });
  await sandboxes.adopt(software);
  const inside = { mounts: [{ at: `${named}/share/made`, layers: [software] }] };
  assert.equal((await sh(`cat ${named}/share/text ${named}/share/made/made`, inside)).text, 'shared\nmade\n');
  await rm(named);
  symlinkSync('/root', named);
  assert.equal((await sh(look)).text, 'shared\nshare\n');
});

test('the parts of a runner’s folder are resolved where the operator has put links', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'headrace-places-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  const [disk, own] = [join(folder, 'disk'), join(folder, 'own')];
  await mkdir(join(disk, 'caches'), { recursive: true });
  await mkdir(join(folder, 'real'));
  symlinkSync(join(folder, 'real'), own);
  symlinkSync(join(disk, 'caches'), join(own, 'caches'));
  const { caches, images } = foldersOf(own);
  assert.deepEqual([caches, images], [join(disk, 'caches'), join(folder, 'real', 'images')]);
});
