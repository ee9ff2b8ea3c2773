import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { chmod, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import test, { type TestContext } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { keepReserve } from '../../../src/shared/lib/disk-reserve.ts';
import { openMirrors, type Mirrors } from '../../../src/runner/git/mirrors.ts';
import { sweepLeftovers } from '../../../src/runner/leftovers.ts';
import { openSandboxes } from '../../../src/runner/sandbox/index.ts';
import { temporaryFolder } from '../../support/databases.ts';
import { lacks } from '../../support/machine.ts';
import { smallDisk, type SmallDisk } from '../../support/small-disk.ts';
import { workplace, type Workplace } from './workplace.ts';
import { longestWait } from '../../support/pauses.ts';

const megabyte = 1024 * 1024;
const skip = lacks('mounts');

interface OnSmallDisk extends Workplace {
  disk: SmallDisk;
  fetched: (signal?: AbortSignal) => ReturnType<Mirrors['fetch']>;
  said: () => string;
  left: () => string[];
}

/** Mirrors on a disk of their own. Nothing watches what is written there but the reserve. */
async function onSmallDisk(t: TestContext, size: number, reserve: number): Promise<OnSmallDisk> {
  const place = await workplace(t);
  const disk = await smallDisk({ afterwards: (cleanUp) => t.after(cleanUp) }, size);
  const stateDir = join(disk.folder, 'sandboxes');
  const sandboxes = await openSandboxes({
    stateDir,
    network: 'none',
    isolation: 'required',
    diskReserveBytes: 0,
    log: () => {},
  });
  const dir = join(disk.folder, 'git');
  const kept = keepReserve({ folders: [disk.folder], bytes: reserve });
  const mirrors = await openMirrors({ dir, sandboxes, sshConfig: place.host.sshConfig, disk: kept });
  t.after(async () => {
    await sandboxes.close();
    await mirrors.close();
  });
  let said = '';
  const writeLog = (text: Buffer | string): void => void (said += text.toString());
  return {
    ...place,
    disk,
    mirrors,
    said: () => said,
    fetched: (signal = place.project.signal) =>
      mirrors.fetch({ ...place.project, commitRef: 'main', writeLog, signal }),
    left: () => unfinishedIn(join(dir, 'mirrors')),
  };
}

function unfinishedIn(folder: string): string[] {
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' });
  return names.filter((name) => /tmp_|\.lock$|\.keep$|writing$|fresh\.git$|broken\.git$/.test(name));
}

test(
  'a repository that would touch the reserve is refused in words, before it does [promise: git-limits]',
  { skip },
  async (t) => {
    const reserve = 16 * megabyte;
    const { repository, disk, fetched, said, left } = await onSmallDisk(t, 40, reserve);
    const sha = await repository.commit();
    await fetched();
    const free = disk.freeBytes();
    await repository.commit({ files: { large: randomBytes(30 * megabyte) } });
    let least = free;
    const looking = setInterval(() => (least = Math.min(least, disk.freeBytes())), 1);
    await assert.rejects(fetched(), { kind: 'disk_full' });
    clearInterval(looking);
    assert.match(said(), /The disk of this runner is too small/);
    assert.deepEqual(left(), []);
    assert.ok(disk.freeBytes() > free - megabyte, `${free - disk.freeBytes()} bytes stay`);
    assert.ok(least < free - 8 * megabyte && least > reserve - 2 * megabyte, `it came down to ${least} free bytes`);
    await repository.overwrite('main', sha);
    assert.equal((await fetched()).sha, sha);
  },
);

test(
  'what is small is fetched also when somebody else has filled the disk, and what is not is not begun',
  { skip },
  async (t) => {
    const { repository, disk, fetched, said, left } = await onSmallDisk(t, 64, 48 * megabyte);
    await repository.commit();
    disk.fillTo(44 * megabyte);
    assert.equal((await fetched()).sha, await repository.sha('main'));
    await repository.commit({ files: { large: randomBytes(20 * megabyte) } });
    await assert.rejects(fetched(), { kind: 'disk_full' });
    disk.fillTo(20 * megabyte);
    await repository.commit();
    await assert.rejects(fetched(), { kind: 'disk_full' });
    assert.match(said(), /The disk of this runner is too small/);
    assert.deepEqual(left(), []);
  },
);

test('a fetch that is called off leaves nothing, also where not a byte is free', { skip }, async (t) => {
  const { host, repository, disk, fetched, left } = await onSmallDisk(t, 32, 0);
  await repository.commit();
  await fetched();
  await repository.commit({ files: { large: randomBytes(megabyte) } });
  const hook = join(dirname(host.folder), 'stuck');
  await writeFile(hook, '#!/bin/sh\n"$@" | { head -c 200000; exec sleep 1000; }\n', { mode: 0o755 });
  const setting = `GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=uploadpack.packObjectsHook GIT_CONFIG_VALUE_0='${hook}'`;
  const serve = join(dirname(host.folder), 'serve');
  await writeFile(serve, `#!/bin/sh\ncd '${host.folder}'\n${setting} exec git-shell -c "$SSH_ORIGINAL_COMMAND"\n`);
  await chmod(serve, 0o755);
  const controller = new AbortController();
  const fetching = fetched(controller.signal);
  fetching.catch(() => {});
  for (const startedAt = performance.now(); !left().some((name) => name.includes('tmp_pack')); await pause(5))
    assert.ok(performance.now() - startedAt < longestWait, 'the transfer did not begin');
  disk.fillTo(0);
  controller.abort(new Error('called off'));
  await assert.rejects(fetching, /called off/);
  assert.deepEqual(left(), []);
});

test('a start removes what a fetch left that was killed, and follows no link out of the mirror', async (t) => {
  const folder = temporaryFolder();
  const elsewhere = temporaryFolder();
  const mirror = join(folder, 'git', 'mirrors', '1', 'abc');
  const packs = join(mirror, 'repository.git', 'objects', 'pack');
  mkdirSync(packs, { recursive: true });
  writeFileSync(join(mirror, 'writing'), '');
  writeFileSync(join(mirror, 'lock'), '');
  writeFileSync(join(packs, 'tmp_pack_x'), 'x');
  writeFileSync(join(packs, 'pack-1.pack'), 'x');
  writeFileSync(join(elsewhere, 'tmp_mine'), 'x');
  symlinkSync(elsewhere, join(packs, 'out'));
  const complaints: string[] = [];
  await sweepLeftovers(folder, (message) => complaints.push(message));
  assert.deepEqual(complaints, []);
  assert.deepEqual(readdirSync(packs).toSorted(), ['out', 'pack-1.pack']);
  assert.deepEqual(readdirSync(mirror).toSorted(), ['lock', 'repository.git']);
  assert.ok(existsSync(join(elsewhere, 'tmp_mine')));
  t.after(() => sweepLeftovers(folder, () => {}));
});
