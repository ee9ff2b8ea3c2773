import assert from 'node:assert/strict';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import test from 'node:test';
import { run } from '../../../src/shared/lib/processes.ts';
import { createRepository } from '../../support/repository.ts';
import { workplace, type Workplace } from './workplace.ts';

async function gitIn(folder: string, ...args: string[]): Promise<string> {
  const env = { PATH: process.env['PATH'], GIT_CONFIG_GLOBAL: '/dev/null', GIT_CONFIG_NOSYSTEM: '1' };
  const finished = await run('git', ['-c', 'safe.directory=*', ...args], { cwd: folder, env });
  assert.equal(finished.status, 0, finished.stderr.toString());
  return finished.stdout.toString().trim();
}

let count = 0;

/** The folder of a sealed work tree. */
async function sealed(
  { mirrors, project, folder }: Workplace,
  commit: Omit<Parameters<Workplace['mirrors']['checkout']>[0], keyof Workplace['project'] | 'into'> & {
    isFork?: boolean;
  },
): Promise<string> {
  const into = join(folder, `tree-${(count += 1)}`);
  await mirrors.checkout({ ...project, ...commit, isSealed: true, into });
  return into;
}

/** By type: what git has at all, reachable or not. */
async function objectsIn(tree: string): Promise<Record<string, string[]>> {
  const listed = await gitIn(tree, 'cat-file', '--batch-all-objects', '--batch-check=%(objecttype) %(objectname)');
  const named = listed.split('\n').map((line) => line.split(' ') as [string, string]);
  return Object.fromEntries(
    [...Map.groupBy(named, ([type]) => type)].map(([type, all]) => [type, all.map(([, name]) => name)]),
  );
}

/** Everything in a `.git` that is text, and the names of the rest. */
async function textsIn(tree: string): Promise<string> {
  const names = await readdir(join(tree, '.git'), { recursive: true, withFileTypes: true });
  const files = names.filter((one) => one.isFile()).map((one) => join(one.parentPath, one.name));
  const texts = await Promise.all(
    files.map(async (file) =>
      /\.(pack|idx|rev)$|index$/.test(file) ? file : `${file}\n${await readFile(file, 'latin1')}`,
    ),
  );
  return texts.join('\n');
}

test('a sealed work tree shows the files of its commit, and nothing else of the repository', async (t) => {
  const place = await workplace(t);
  const { repository, project } = place;
  const secret = await repository.commit({ message: 'SECRET message', files: { a: 'old', gone: 'SECRET\n' } });
  await repository.tag('v1.SECRET', secret, 'SECRET tag');
  await repository.branch('branch-SECRET', secret);
  await repository.commit({ on: 'elsewhere', message: 'Elsewhere', files: { other: 'SECRET elsewhere' } });
  const sha = await repository.commit({
    message: 'SECRET subject',
    author: { name: 'SECRET author', email: 'a@example.test' },
    files: { a: 'new', gone: null, 'bin/run': { executable: '#!/bin/sh\n' }, 'dir/deep/b': 'b' },
  });
  const hidden = [secret, sha, await repository.sha('elsewhere'), await repository.sha('v1.SECRET')];
  const hiddenBlobs = await Promise.all(
    [`${secret}:gone`, `${secret}:a`, 'elsewhere:other', `${secret}^{tree}`].map((name) => repository.sha(name)),
  );
  const tree = await sealed(place, { sha });

  // A build looks wherever git keeps anything.
  assert.equal(
    await gitIn(tree, 'log', '--all', '--format=%P%an%ae%cn%s', 'HEAD'),
    await gitIn(tree, 'log', '-1', '--format=%an%ae%cn%s'),
  );
  assert.equal(await gitIn(tree, 'rev-list', '--all', '--reflog', 'HEAD'), await gitIn(tree, 'rev-parse', 'HEAD'));
  for (const args of [
    ['for-each-ref'],
    ['remote'],
    ['reflog', '--all'],
    ['stash', 'list'],
    ['tag'],
    ['worktree', 'prune'],
  ])
    assert.equal(await gitIn(tree, ...args), '', args.join(' '));
  assert.equal((await gitIn(tree, 'fsck', '--strict', '--unreachable', '--dangling')).trim(), '');
  for (const name of [...hidden, ...hiddenBlobs, 'HEAD~1', 'FETCH_HEAD', 'ORIG_HEAD', 'origin/main', 'main'])
    await assert.rejects(gitIn(tree, 'cat-file', '-e', name), name);
  const { commit = [], tree: trees = [], blob = [], ...others } = await objectsIn(tree);
  assert.deepEqual([commit.length, trees.length, blob.length, others], [1, 4, 3, {}]);
  const texts = await textsIn(tree);
  for (const word of ['SECRET', project.repositoryUrl, 'app.git', 'alternates', ...hidden, 'logs/', 'hooks/'])
    assert.ok(!texts.includes(word), `${word} in\n${texts}`);

  // It is a work tree like any other in the rest.
  assert.equal(await gitIn(tree, 'status', '--porcelain'), '');
  assert.equal(await gitIn(tree, 'rev-parse', 'HEAD^{tree}'), await repository.sha(`${sha}^{tree}`));
  assert.equal(await gitIn(tree, 'show', 'HEAD:dir/deep/b'), 'b');
  await writeFile(join(tree, 'a'), 'changed');
  assert.equal(await gitIn(tree, 'diff', '--shortstat'), '1 file changed, 1 insertion(+), 1 deletion(-)');
  await gitIn(tree, 'checkout', '--', 'a');
  assert.equal(await readFile(join(tree, 'a'), 'utf8'), 'new');
});

test('the SHA at HEAD follows from the files alone', async (t) => {
  const place = await workplace(t);
  const { repository, fetch } = place;
  const base = await repository.commit({ files: { a: '1', b: '1' } });
  const first = await repository.commit({ on: 'topic', after: base, files: { a: '2' } });
  const topic = await repository.commit({ on: 'topic', files: { b: '2' } });
  const squashed = await repository.commit({ message: 'Squash', files: { a: '2', b: '2' } });
  const changed = await repository.commit({ files: { a: '3' } });
  const reverted = await repository.commit({ message: 'Revert', files: { a: '2' } });
  const rebased = await repository.commit({ on: 'rebased', after: changed, files: { a: '2' } });
  const alone = await repository.commit({ on: 'alone', after: null, files: { a: '2', b: '2' } });
  const headOf = async (sha: string, more = {}): Promise<string> =>
    gitIn(await sealed(place, { sha, ...more }), 'rev-parse', 'HEAD');
  const head = await headOf(topic);
  for (const same of [squashed, reverted, rebased, alone]) assert.equal(await headOf(same), head);
  for (const other of [base, first, changed]) assert.notEqual(await headOf(other), head);

  // The same files as the merge of a pull request, of a fork or not.
  await repository.git(['update-ref', 'refs/pull/7/head', topic]);
  await repository.overwrite('main', base);
  const { merge } = await fetch(topic, { fetchRef: 'refs/pull/7/head', merge: { into: 'main', name: '42' } });
  assert.ok(merge);
  const made = { sha: merge.sha, fetchRef: 'refs/pull/7/head', merge: { head: topic, base, name: '42' } };
  for (const isFork of [true, false]) {
    const tree = await sealed(place, { ...made, isFork });
    assert.equal(await gitIn(tree, 'rev-parse', 'HEAD'), head);
    assert.deepEqual((await objectsIn(tree))['commit'], [head]);
    assert.equal(await gitIn(tree, 'status', '--porcelain'), '');
    for (const name of [topic, base, merge.sha]) await assert.rejects(gitIn(tree, 'cat-file', '-e', name));
    const texts = await textsIn(tree);
    for (const name of [topic, base, merge.sha]) assert.ok(!texts.includes(name));
  }
});

test('submodules have the commit that the files name, and no history either', async (t) => {
  const place = await workplace(t);
  const { repository, host } = place;
  const library = await createRepository(join(host.folder, 'lib.git'));
  const before = await library.commit({ message: 'SECRET before', files: { old: 'SECRET old' } });
  await library.tag('v1', before, 'SECRET');
  const named = await library.commit({ files: { old: null, lib: '1' } });
  const after = await library.commit({ files: { lib: 'SECRET later' } });
  const sha = await repository.commit({
    files: {
      'deps/lib': { submodule: named },
      '.gitmodules': '[submodule "lib"]\n\tpath = deps/lib\n\turl = ../lib.git\n',
    },
  });
  const tree = await sealed(place, { sha });
  const inner = join(tree, 'deps', 'lib');
  assert.equal(await readFile(join(inner, 'lib'), 'utf8'), '1');
  assert.equal(await gitIn(tree, 'status', '--porcelain'), '');
  assert.equal(await gitIn(inner, 'status', '--porcelain'), '');
  assert.equal(await gitIn(inner, 'log', '--all', '--format=%H', 'HEAD'), named);
  assert.deepEqual((await objectsIn(inner))['commit'], [named]);
  assert.equal((await objectsIn(inner))['blob']?.length, 1);
  for (const name of [before, after, `${before}^{tree}`]) await assert.rejects(gitIn(inner, 'cat-file', '-e', name));
  const texts = await textsIn(inner);
  for (const word of ['SECRET', 'lib.git', before, after]) assert.ok(!texts.includes(word), texts);
});
