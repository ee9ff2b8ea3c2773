import assert from 'node:assert/strict';
import { mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import { run } from '../../../src/shared/lib/processes.ts';
import { createRepository, type Repository } from '../../support/repository.ts';
import { blob, rawCommit, rawTree, twoFaced } from './malice.ts';
import { workplace, type Workplace } from './workplace.ts';

/** A folder of the machine that nobody here has any business with. */
async function victim(folder: string): Promise<string> {
  const path = join(folder, 'victim');
  await mkdir(join(path, 'c'), { recursive: true });
  await writeFile(join(path, 'c', 'precious'), 'mine');
  return path;
}

async function isUnharmed(path: string): Promise<void> {
  assert.deepEqual(await readdir(path), ['c']);
  assert.deepEqual(await readdir(join(path, 'c')), ['precious']);
  assert.equal(await readFile(join(path, 'c', 'precious'), 'utf8'), 'mine');
}

/** Puts a commit into the runner's mirror as a runner did that checked nothing. */
async function smuggle({ dir, fetch, sandboxes }: Workplace, repository: Repository, sha: string): Promise<void> {
  await repository.overwrite('main', await repository.sha('innocent'));
  await fetch('main');
  const [mirror = ''] = await readdir(join(dir, 'mirrors', '1'));
  const gitDir = join(dir, 'mirrors', '1', mirror, 'repository.git');
  await repository.overwrite('main', sha);
  const how = ['safe.directory=*', 'fetch.unpackLimit=1'].flatMap((setting) => ['-c', setting]);
  const args = [...how, `--git-dir=${gitDir}`, 'fetch', '--quiet', repository.folder, 'main'];
  const finished = await run('git', args);
  assert.equal(finished.status, 0, finished.stderr.toString());
  await sandboxes.adopt(gitDir);
}

async function attack(t: TestContext) {
  const place = await workplace(t);
  const { host, repository, folder } = place;
  await repository.commit({ on: 'innocent' });
  const target = await victim(folder);
  const inner = await createRepository(join(host.folder, 'inner.git'));
  const submodule = { url: '../inner.git', sha: await inner.commit({ files: { b: { link: target }, evil: 'yes' } }) };
  const sha = await twoFaced(repository, submodule);
  return { ...place, target, sha };
}

test('a tree that names something twice is not even fetched, and the log says so', async (t) => {
  const { mirrors, project, folder, dir, fetchFails, sha, target, log } = await attack(t);
  const said = await fetchFails('malformed_repository', 'main');
  assert.match(said, /duplicateEntries/);
  await assert.rejects(mirrors.checkout({ ...project, sha, into: join(folder, 'tree') }), {
    kind: 'malformed_repository',
  });
  assert.match(log(), /malformed|git rejects/);
  await isUnharmed(target);
  assert.deepEqual((await readdir(folder)).toSorted(), ['runner', 'victim']);
  assert.deepEqual(await readdir(join(dir, 'mirrors', '1', (await readdir(join(dir, 'mirrors', '1')))[0] ?? '')), [
    'lock',
  ]);
});

test('a malformed tree that is in a mirror already lets no submodule leave the work tree', async (t) => {
  const place = await attack(t);
  const { repository, mirrors, project, folder, sha, target, log } = place;
  await smuggle(place, repository, sha);
  await mirrors.checkout({ ...project, sha, into: join(folder, 'tree') });
  await isUnharmed(target);
  assert.match(log(), /Submodule a is skipped: its path is not an empty directory/);
  assert.deepEqual((await readdir(join(folder, 'tree', 'a', 'b', 'c'))).toSorted(), ['.git', 'b', 'evil']);
  assert.deepEqual((await readdir(folder)).toSorted(), ['runner', 'tree', 'victim']);
});

test('a submodule is put into an empty directory of its tree, and nowhere else', async (t) => {
  const { folder } = await workplace(t);
  const target = await victim(folder);
  const tree = join(folder, 'tree');
  for (const path of ['empty', 'full/inner', 'deep/er/empty']) await mkdir(join(tree, path), { recursive: true });
  await symlink(target, join(tree, 'away'));
  await symlink('empty', join(tree, 'near'));
  const program = new URL('../../../src/runner/git/place.pl', import.meta.url).pathname;
  const place = async (path: string): Promise<number | null> => {
    await mkdir(join(folder, 'made', 'content'), { recursive: true });
    return (await run('perl', [program, join(folder, 'made'), tree, path])).status;
  };
  for (const path of ['away', 'away/c', 'near', 'full', 'missing', '../victim', 'deep/../empty', '/etc', '.', '']) {
    assert.equal(await place(path), 1, path);
  }
  await isUnharmed(target);
  for (const path of ['empty', 'deep/er/empty']) {
    assert.equal(await place(path), 0, path);
    assert.deepEqual(await readdir(join(tree, path)), ['content']);
  }
});

for (const name of ['.git', '..', '.GIT']) {
  test(`an entry with the name ${name} is refused, also from an old mirror`, async (t) => {
    const place = await workplace(t);
    const { repository, mirrors, project, folder, fetchFails, log } = place;
    await repository.commit({ on: 'innocent' });
    const config = await blob(repository, '[core]\n\tfsmonitor = touch /tmp/never\n');
    const inner = await rawTree(repository, [{ mode: '100644', name: 'config', sha: config }]);
    const sha = await rawCommit(repository, await rawTree(repository, [{ mode: '40000', name, sha: inner }]));
    assert.match(await fetchFails('malformed_repository', 'main'), /hasDotgit|hasDotdot/);
    await smuggle(place, repository, sha);
    log();
    await assert.rejects(mirrors.checkout({ ...project, sha, into: join(folder, 'tree') }), {
      kind: 'malformed_repository',
    });
    assert.match(log(), /invalid path/);
    assert.deepEqual(await readdir(folder), ['runner']);
  });
}

test('.gitmodules that mean to mislead are refused', async (t) => {
  const { host, repository, fetchFails } = await workplace(t);
  const sha = await (await createRepository(join(host.folder, 'inner.git'))).commit();
  for (const text of [
    '[submodule "x"]\n\tpath = x\n\turl = -oProxyCommand=id:x\n',
    '[submodule "../../x"]\n\tpath = x\n\turl = ../inner.git\n',
    '[submodule "x"]\n\tpath = -x\n\turl = ../inner.git\n',
    '[submodule "x"]\n\tpath = x\n\turl = ../inner.git\n\tupdate = !id\n',
  ]) {
    await repository.commit({ after: null, files: { '.gitmodules': text, x: { submodule: sha } } });
    assert.match(await fetchFails('malformed_repository', 'main'), /gitmodules/);
  }
});

test('the harmless mistakes of old tools are no reason to refuse a history', async (t) => {
  const { repository, fetch } = await workplace(t);
  const file = await blob(repository, 'old');
  const inner = await rawTree(repository, [{ mode: '100664', name: 'f', sha: file }]);
  const tree = await rawTree(repository, [{ mode: '040000', name: 'd', sha: inner }]);
  const odd = [
    'author A <a@example.test>1750000000 +0000\ncommitter A <a@example.test> 1750000000 +0000',
    'author A <a@example.test> 1750000000 +051800\ncommitter A <a@example.test> 1750000000 +00',
    'author A a@example.test> 01750000000 +0000\ncommitter A<a@example.test> 0 +0000',
    'author A <> 99999999999999999999 +0000\nauthor B <b> 0 +0000\ncommitter <a@example.test> 0 +0000',
  ];
  for (const people of odd) {
    const text = `tree ${tree}\n${people}\n\nOld\n`;
    const sha = await repository.git(['hash-object', '-t', 'commit', '-w', '--literally', '--stdin'], text);
    await repository.overwrite('main', sha);
    assert.equal((await fetch('main')).sha, sha);
  }
});

test('hooks, settings and links planted in a mirror have no effect [promise: git-sandbox]', async (t) => {
  const { repository, mirrors, project, folder, dir, fetch, fetchFails, host, sandboxes } = await workplace(t);
  const sha = await repository.commit({ files: { 'a.dat': '1', '.gitattributes': '*.dat filter=evil diff=evil\n' } });
  await fetch('main');
  const other = await createRepository(join(host.folder, 'other.git'));
  const secret = await other.commit({ files: { secret: 'of another project' } });
  await fetch('main', { projectId: '2', repositoryUrl: host.url('other.git') });
  const mirrorOf = async (id: string): Promise<string> => {
    const [name = ''] = await readdir(join(dir, 'mirrors', id));
    return join(dir, 'mirrors', id, name, 'repository.git');
  };
  const gitDir = await mirrorOf('1');
  const trap = join(folder, 'trapped');
  const program = `touch ${trap}`;
  await writeFile(
    join(gitDir, 'config'),
    `[core]\n\trepositoryformatversion = 0\n\tbare = true\n\tfsmonitor = ${program}\n\tsshCommand = ${program}\n\tpager = ${program}\n\thooksPath = ${gitDir}/hooks\n` +
      `[filter "evil"]\n\tsmudge = ${program}\n[diff "evil"]\n\ttextconv = ${program}\n\tcommand = ${program}\n[uploadpack]\n\tpackObjectsHook = ${program}\n`,
  );
  await mkdir(join(gitDir, 'hooks'), { recursive: true });
  for (const hook of ['reference-transaction', 'post-checkout', 'pre-push', 'post-index-change']) {
    await writeFile(join(gitDir, 'hooks', hook), `#!/bin/sh\n${program}\n`, { mode: 0o755 });
  }
  await writeFile(join(gitDir, 'objects', 'info', 'alternates'), `${await mirrorOf('2')}/objects\n`);
  await sandboxes.adopt(gitDir);
  const next = await repository.commit({ files: { 'b.dat': '2' } });
  assert.equal((await fetch('main')).sha, next);
  await fetchFails('ref_not_found', secret);
  await mirrors.checkout({ ...project, sha, into: join(folder, 'tree') });
  assert.equal(await readFile(join(folder, 'tree', 'a.dat'), 'utf8'), '1');
  assert.deepEqual((await readdir(folder)).toSorted(), ['runner', 'tree']);
  assert.ok(!(await readdir(join(folder, 'tree', '.git', 'objects', 'info'))).includes('alternates'));
});
