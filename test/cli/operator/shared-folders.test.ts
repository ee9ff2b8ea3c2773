import assert from 'node:assert/strict';
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { cleanUpAfterwards, folderFor } from '../../support/folders.ts';
import { lacks } from '../../support/machine.ts';
import { startProgram } from '../../support/program.ts';

/** Data folders that belong to somebody else, such as a volume that an engine made, and what others put into them. */

const user = 60_921;
const other = 60_922;

describe('a data folder of somebody else', { skip: lacks('other users') }, () => {
  const afterwards = cleanUpAfterwards();
  let folder: string;
  before(() => {
    folder = folderFor(afterwards);
    chmodSync(folder, 0o755);
  });
  /** It belongs to root, and everybody may write to it. */
  const shared = (name: string, mode = 0o1777): string => {
    const path = join(folder, name);
    mkdirSync(path);
    chmodSync(path, mode);
    return path;
  };
  const migrated = async (
    path: string,
    within = ['setpriv', '--reuid', `${user}`, '--regid', `${user}`, '--clear-groups', '--'],
  ) => {
    const started = startProgram({ afterwards }, ['migrate', '--data-dir', path], {}, within);
    return { status: await started.exited, said: started.said() };
  };
  const own = `headrace-${user}`;

  test('has one of the user below it, closed to others, at each start', async () => {
    const path = shared('volume');
    for (const said of [/^applied /, /^nothing to apply/]) {
      const done = await migrated(path);
      assert.equal(done.status, 0, done.said);
      assert.match(done.said, said);
    }
    assert.deepEqual(readdirSync(path), [own]);
    const { uid, mode } = statSync(join(path, own));
    assert.deepEqual([uid, mode & 0o7777], [user, 0o700]);
    assert.deepEqual(readdirSync(join(path, own)).includes('headrace.db'), true);
  });

  test('is left alone where something else has the name: a folder of another user, a link, a file', async () => {
    const victim = join(folder, 'victim');
    mkdirSync(victim, { mode: 0o755 });
    chownSync(victim, user, user);
    const ways: [string, (at: string) => void][] = [
      [
        'folder',
        (at) => {
          mkdirSync(at);
          chmodSync(at, 0o777);
          writeFileSync(join(at, 'headrace.toml'), 'database_url = "postgres://thief.example.org/"');
          chownSync(at, other, other);
        },
      ],
      ['link', (at) => symlinkSync(victim, at)],
      ['link to nothing', (at) => symlinkSync(join(folder, 'nothing'), at)],
      ['file', (at) => writeFileSync(at, '')],
    ];
    for (const [name, make] of ways) {
      const path = shared(name);
      make(join(path, own));
      const done = await migrated(path);
      assert.equal(done.status, 1, `${name}: ${done.said}`);
      assert.ok(done.said.includes(`${join(path, own)} must be a folder of the user ${user}`), `${name}: ${done.said}`);
    }
    assert.deepEqual(readdirSync(victim), []);
    assert.equal(statSync(victim).mode & 0o777, 0o755);
    assert.equal(existsSync(join(folder, 'nothing')), false);
    assert.deepEqual(readdirSync(join(folder, 'folder', own)), ['headrace.toml']);
  });

  test('that cannot be written is refused as before', async () => {
    const path = shared('closed', 0o755);
    const done = await migrated(path);
    assert.equal(done.status, 1);
    assert.match(done.said, /EPERM|EACCES/);
    assert.deepEqual(readdirSync(path), []);
  });

  test('is root’s to use, and one of the user’s own is used as it is', async () => {
    for (const [name, within] of [
      ['of another', ['env']],
      ['own', undefined],
    ] as const) {
      const path = shared(name, 0o777);
      chownSync(path, user, user);
      const done = await migrated(path, within && [...within]);
      assert.equal(done.status, 0, done.said);
      assert.ok(existsSync(join(path, 'headrace.db')));
      assert.equal(statSync(path).mode & 0o777, 0o700);
    }
  });
});
