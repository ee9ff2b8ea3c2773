import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import test from 'node:test';
import { publicAddressFilter } from '../../../src/shared/lib/address-filter.ts';
import { run } from '../../../src/shared/lib/processes.ts';
import { openCheckouts } from '../../../src/runner/checkouts.ts';
import { lfsTransferProgram } from '../../support/lfs-transfer.ts';
import { startHttpsGitHost } from '../../support/https-git.ts';
import { createRepository, type NewCommit, type Repository } from '../../support/repository.ts';
import { workplace, type Workplace } from './workplace.ts';

const fetchRef = 'refs/pull/7/head';

/** A commit that only the ref of a pull request leads to. */
async function propose(repository: Repository, commit: NewCommit = {}, ref = fetchRef): Promise<string> {
  const sha = await repository.commit({ on: 'proposed', after: await repository.sha('main'), ...commit });
  await repository.git(['update-ref', ref, sha]);
  await repository.deleteBranch('proposed');
  return sha;
}

const modules = (urls: Record<string, string>): string =>
  Object.entries(urls)
    .map(([path, url]) => `[submodule "${path}"]\n\tpath = ${path}\n\turl = "${url}"\n`)
    .join('');

async function checkOut({ mirrors, project, folder }: Workplace, sha: string, isFork = true) {
  const tree = join(folder, `${isFork ? 'fork' : 'own'}-${sha}`);
  const { sentences } = await mirrors.checkout({ ...project, sha, fetchRef, isFork, into: tree });
  return { tree, misses: sentences };
}

async function gitIn(tree: string, ...args: string[]) {
  const env = { PATH: process.env['PATH'], GIT_CONFIG_GLOBAL: '/dev/null', GIT_CONFIG_NOSYSTEM: '1' };
  const { status, stdout } = await run('git', ['-c', 'safe.directory=*', ...args], { cwd: tree, env });
  return { status, lines: stdout.toString().split('\n').filter(Boolean) };
}

test('a fork cannot have the key of the project used for what it names [promise: fork-sources] [promise: git-keys]', async (t) => {
  const place = await workplace(t);
  const { host, repository, mirrors, project, folder, log } = place;
  const secret = await createRepository(join(host.folder, 'secret.git'));
  const secretSha = await secret.commit({ files: { password: 'open sesame' } });
  const hidden = await repository.commit({ on: 'hidden', after: null, files: { plan: 'hidden' } });
  await repository.commit();
  const named = {
    beside: '../secret.git',
    written: host.url('secret.git'),
    'own/far': '../app.git',
    'own/near': './.',
    'own/full': host.url('app.git'),
    other: 'elsewhere.test:secret.git',
    inside: 'git@10.0.0.5:x',
  };
  const paths = Object.keys(named);
  const links = Object.fromEntries(
    paths.map((path) => [path, { submodule: path.startsWith('own') ? hidden : secretSha }]),
  );
  const sha = await propose(repository, { files: { '.gitmodules': modules(named), ...links } });
  const { tree, misses } = await checkOut(place, sha);
  const text = log();
  assert.equal(misses.length, paths.length, misses.join('\n'));
  for (const path of paths) {
    assert.deepEqual(await readdir(join(tree, path)), [], path);
    const sentence = misses.find((miss) => miss.startsWith(`Submodule ${path} is skipped: `)) ?? '';
    assert.match(sentence, /comes from a fork.*key of the project is not used/);
    assert.ok(text.includes(sentence));
  }
  assert.equal(host.logins(), 1, 'for the commit itself');
  // An order that does not say whose commit it is counts as one of a fork.
  const { isFork: _, ...unsaid } = project;
  const { sentences } = await mirrors.checkout({ ...unsaid, sha, fetchRef, into: join(folder, 'unsaid') });
  assert.deepEqual(sentences, misses);
});

test('the work tree of a fork’s commit does not serve for the merged one, nor the other way round [promise: fork-sources]', async (t) => {
  const { host, repository, mirrors, project, folder } = await workplace(t);
  const secret = await createRepository(join(host.folder, 'secret.git'));
  const link = { submodule: await secret.commit({ files: { password: 'open sesame' } }) };
  await repository.commit();
  const sha = await propose(repository, { files: { '.gitmodules': modules({ lib: '../secret.git' }), lib: link } });
  const checkouts = await openCheckouts(join(folder, 'checkouts'), mirrors, assert.fail);
  const take = (isFork: boolean) => checkouts.of(project, { sha, fetchRef, isFork }, () => {}, project.signal);
  using proposed = await take(true);
  assert.match(proposed.misses.join(), /Submodule lib is skipped.*fork/);
  await repository.overwrite('main', sha);
  using merged = await take(false);
  assert.deepEqual(merged.misses, []);
  assert.equal(await readFile(join(merged.path, 'lib', 'password'), 'utf8'), 'open sesame');
  using rerun = await take(true);
  assert.equal(rerun.path, proposed.path);
  assert.deepEqual(await readdir(join(rerun.path, 'lib')), []);
});

test('a fork’s work tree holds its own history, and nothing of other branches, forks or times [promise: fork-sources]', async (t) => {
  const place = await workplace(t);
  const { repository, fetch } = place;
  const old = await repository.commit({ files: { a: 'first' } });
  await repository.tag('v1', old, 'said of the first');
  await repository.tag('v1-again', await repository.sha('v1'), 'said of what was said');
  const leaked = await repository.commit({ files: { leaked: 'a password that was removed since' } });
  await fetch('main');
  await repository.overwrite('main', await repository.commit({ on: 'mended', after: old, files: { a: 'second' } }));
  await repository.deleteBranch('mended');
  const secret = await repository.commit({ on: 'secret', files: { plan: 'of a branch' } });
  await repository.tag('v9', secret);
  const other = await propose(repository, { files: { b: 'of another fork' } }, 'refs/pull/8/head');
  await fetch(other, { fetchRef: 'refs/pull/8/head' });
  const blob = await repository.git(['hash-object', '-w', '--stdin'], 'of nobody');
  await repository.tag('blob', blob);
  const sha = await propose(repository, { files: { c: 'proposed' } });
  const { tree, misses } = await checkOut(place, sha);
  assert.deepEqual(misses, []);

  const listed = await gitIn(tree, 'cat-file', '--batch-all-objects', '--batch-check=%(objectname)');
  const reachable = (await repository.git(['rev-list', '--objects', '--no-object-names', sha])).split('\n');
  assert.deepEqual(listed.lines.toSorted(), reachable.toSorted());
  for (const absent of [leaked, secret, other, blob, `${leaked}:leaked`, `${secret}:plan`]) {
    assert.notEqual((await gitIn(tree, 'cat-file', '-e', absent)).status, 0, absent);
  }
  const refs = await gitIn(tree, 'for-each-ref', '--format=%(objecttype) %(refname)');
  assert.deepEqual(refs.lines, ['commit refs/tags/v1'], 'of names, the tags in its history');
  assert.deepEqual((await gitIn(tree, 'describe', '--tags', '--abbrev=0')).lines, ['v1']);
  assert.deepEqual((await gitIn(tree, 'log', '--format=%H')).lines.length, 3);
  assert.deepEqual((await gitIn(tree, 'status', '--porcelain')).lines, []);
  assert.equal((await gitIn(tree, 'fsck', '--full', '--strict')).status, 0);
  const packs = join(tree, '.git', 'objects', 'pack');
  for (const name of await readdir(packs)) assert.equal((await stat(join(packs, name))).nlink, 1, name);
  // What the project's own people write has all of it, as before.
  const own = await checkOut(place, await repository.sha('main'), false);
  assert.equal((await gitIn(own.tree, 'cat-file', '-e', `${secret}:plan`)).status, 0);
});

test('a fork’s large files are asked for without the key, and none that another commit brought is given to it [promise: fork-sources]', async (t) => {
  const looked: string[] = [];
  const resolve = async (host: string) => (looked.push(host), [{ address: '10.1.2.3', family: 4 }]);
  const place = await workplace(t, { rules: { resolve, mayCall: publicAddressFilter([]) } });
  const { host, repository, folder } = place;
  const content = 'of the project alone';
  const oid = createHash('sha256').update(content).digest('hex');
  const asked = join(folder, 'asked');
  const program = lfsTransferProgram({ [oid]: content });
  await host.provide(
    'git-lfs-transfer',
    program.replace('import json', `open('${asked}', 'a').write('x')\nimport json`),
  );
  await host.provide('git-lfs-authenticate', `#!/bin/sh\nprintf x >>${asked}\n`);
  const files = {
    '.gitattributes': '*.bin filter=lfs\n',
    '.lfsconfig': '[lfs]\n\turl = https://10.9.9.9/\n',
    'a.bin': `version https://git-lfs.github.com/spec/v1\noid sha256:${oid}\nsize ${content.length}\n`,
  };
  const own = await checkOut(place, await repository.commit({ files }), false);
  assert.equal(await readFile(join(own.tree, 'a.bin'), 'utf8'), content);
  const before = await readFile(asked, 'utf8');
  assert.notEqual(before, '');
  const { tree, misses } = await checkOut(place, await propose(repository, { files: { ...files, b: 'more' } }));
  assert.match(await readFile(join(tree, 'a.bin'), 'utf8'), /^version/);
  assert.match(
    misses.join(),
    /a\.bin of Git LFS was not fetched.*not public.*a fork.*without the credentials of the project/,
  );
  assert.equal(await readFile(asked, 'utf8'), before, 'the host was not asked with the key');
  assert.deepEqual([...new Set(looked)], ['git.test'], 'the project’s own host, as anybody may ask it');
});

test('a public submodule of a fork comes without credentials, and is told of where it does not [promise: fork-sources]', async (t) => {
  const open = await startHttpsGitHost();
  t.after(() => open.close());
  const place = await workplace(t, {
    authorities: open.ca,
    rules: { mayCall: publicAddressFilter(['127.0.0.1/32', '::1/128']) },
  });
  const { repository } = place;
  const lib = await createRepository(join(open.folder, 'lib.git'));
  const link = { submodule: await lib.commit({ files: { a: 'public' } }) };
  const beside = await lib.commit({ on: 'beside', files: { b: 'beside' } });
  await repository.commit();
  const named = { lib: open.url('lib.git', 'me:secretword'), gone: open.url('gone.git') };
  const sha = await propose(repository, { files: { '.gitmodules': modules(named), lib: link, gone: link } });
  const { tree, misses } = await checkOut(place, sha);
  assert.equal(await readFile(join(tree, 'lib', 'a'), 'utf8'), 'public');
  assert.notEqual((await gitIn(join(tree, 'lib'), 'cat-file', '-e', beside)).status, 0);
  for (const { headers } of open.calls) assert.equal(headers.authorization, undefined);
  assert.equal(misses.length, 1);
  assert.match(misses[0] ?? '', /^Submodule gone is skipped: .*anonymous access/);
  assert.doesNotMatch(misses[0] ?? '', /user@host:path/, 'which would not help');
});
