import assert from 'node:assert/strict';
import { access, lstat, mkdir, readdir, readFile, readlink, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import test from 'node:test';
import { run } from '../../../src/shared/lib/processes.ts';
import { createRepository } from '../../support/repository.ts';
import { workplace } from './workplace.ts';
import { lacks } from '../../support/machine.ts';

async function gitIn(folder: string, ...args: string[]): Promise<string> {
  const env = { PATH: process.env['PATH'], GIT_CONFIG_GLOBAL: '/dev/null', GIT_CONFIG_NOSYSTEM: '1' };
  const finished = await run('git', ['-c', 'safe.directory=*', ...args], { cwd: folder, env });
  assert.equal(finished.status, 0, finished.stderr.toString());
  return finished.stdout.toString().trim();
}

function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}

test('a work tree has the files, and a git that works by itself', async (t) => {
  const { repository, mirrors, project, folder, dir } = await workplace(t);
  const first = await repository.commit({ message: 'First', files: { 'a.txt': 'old' } });
  await repository.tag('v1', first, 'one');
  await repository.branch('other', first);
  const sha = await repository.commit({
    message: 'Second',
    files: { 'a.txt': 'new', 'bin/run': { executable: '#!/bin/sh\n' }, link: { link: '/etc/passwd' } },
  });
  const into = join(folder, 'trees', 'one');
  await mirrors.checkout({ ...project, sha, into });
  await mirrors.close();
  await run('rm', ['-rf', dir]); // nothing in the tree may need the mirror
  assert.equal(await readFile(join(into, 'a.txt'), 'utf8'), 'new');
  assert.equal((await stat(join(into, 'bin/run'))).mode & 0o111, 0o111);
  assert.equal(await readlink(join(into, 'link')), '/etc/passwd');
  assert.equal(await gitIn(into, 'log', '--format=%s'), 'Second\nFirst');
  assert.match(await gitIn(into, 'describe', '--tags'), /^v1-1-g/);
  assert.equal(await gitIn(into, 'rev-parse', 'HEAD', 'origin/main', 'origin/other'), [sha, sha, first].join('\n'));
  assert.equal(await gitIn(into, 'status', '--porcelain'), '');
  assert.equal(await gitIn(into, 'remote', 'get-url', 'origin'), project.repositoryUrl);
  await gitIn(into, 'fsck', '--strict');
  assert.deepEqual(await readdir(join(folder, 'trees')), ['one']);
});

test('a commit that this runner does not have is fetched for its work tree', async (t) => {
  const { repository, mirrors, project, folder } = await workplace(t);
  const sha = await repository.commit({ files: { a: '1' } });
  await mirrors.checkout({ ...project, sha, into: join(folder, 'tree') });
  assert.equal(await readFile(join(folder, 'tree', 'a'), 'utf8'), '1');
  const missing = { ...project, sha: 'f'.repeat(40), into: join(folder, 'missing') };
  await assert.rejects(mirrors.checkout(missing), { kind: 'ref_not_found' });
  assert.deepEqual((await readdir(folder)).sort(), ['runner', 'tree']);
});

test('no program that a repository names is ever run', async (t) => {
  const { repository, mirrors, project, folder, host } = await workplace(t);
  const trap = join(folder, 'trapped');
  const sha = await repository.commit({
    files: {
      '.gitattributes': '*.dat filter=evil diff=evil merge=evil\n*.crlf text eol=crlf\n',
      '.gitconfig': `[filter "evil"]\n\tsmudge = touch ${trap}\n\tprocess = touch ${trap}\n[core]\n\tfsmonitor = touch ${trap}\n`,
      'hooks/post-checkout': { executable: `#!/bin/sh\ntouch ${trap}\n` },
      'x.dat': 'version https://git-lfs.github.com/spec/v1\n',
    },
  });
  await repository.git(['config', 'filter.evil.smudge', `touch ${trap}`]);
  await writeFile(join(host.folder, 'app.git', 'hooks', 'post-checkout'), `#!/bin/sh\ntouch ${trap}\n`, {
    mode: 0o755,
  });
  const home = join(folder, 'home');
  await mkdir(home);
  await writeFile(join(home, '.gitconfig'), `[filter "evil"]\n\tsmudge = touch ${trap}\n[core]\n\thooksPath = /\n`);
  const before = process.env['HOME'];
  process.env['HOME'] = home;
  t.after(() => (process.env['HOME'] = before));
  await mirrors.checkout({ ...project, sha, into: join(folder, 'tree') });
  assert.equal(await readFile(join(folder, 'tree', 'x.dat'), 'utf8'), 'version https://git-lfs.github.com/spec/v1\n');
  assert.equal(await exists(trap), false);
  assert.equal(await exists(join(folder, 'tree', '.git', 'hooks')), false);
});

test('a tree that tries to leave its folder is refused whole', async (t) => {
  const { repository, mirrors, project, folder } = await workplace(t);
  const blob = await repository.git(['hash-object', '-w', '--stdin'], 'evil');
  for (const name of ['.git', '..', '.GIT']) {
    const inner = await repository.git(['mktree'], `100644 blob ${blob}\tconfig\n`);
    const raw = Buffer.concat([Buffer.from(`40000 ${name}\0`), Buffer.from(inner, 'hex')]);
    const tree = await repository.git(['hash-object', '-t', 'tree', '-w', '--literally', '--stdin'], raw);
    const sha = await repository.git(['commit-tree', tree, '-m', 'evil']).catch(async () => {
      const header = `tree ${tree}\nauthor A <a@example.test> 0 +0000\ncommitter A <a@example.test> 0 +0000\n\nevil\n`;
      return repository.git(['hash-object', '-t', 'commit', '-w', '--stdin'], header);
    });
    await repository.overwrite('main', sha);
    await assert.rejects(mirrors.checkout({ ...project, sha, into: join(folder, 'tree') }));
    assert.deepEqual(await readdir(folder), ['runner']);
  }
});

test('a work tree belongs to the build user', { skip: lacks('root') }, async (t) => {
  const { repository, mirrors, project, folder, sandboxes } = await workplace(t);
  const sha = await repository.commit({ files: { 'd/a': '1', l: { link: 'd/a' } } });
  const into = join(folder, 'tree');
  await mirrors.checkout({ ...project, sha, into });
  for (const path of ['.', 'd', 'd/a', 'l', '.git', '.git/index', '.git/objects', '.git/objects/pack', '.git/HEAD']) {
    assert.equal((await lstat(join(into, path))).uid, sandboxes.owner.uid, path);
  }
  for (const pack of await readdir(join(into, '.git/objects/pack'))) {
    assert.equal((await stat(join(into, '.git/objects/pack', pack))).mode & 0o777, 0o444, pack);
  }
});

test('a cancelled checkout leaves nothing', async (t) => {
  const { repository, mirrors, project, folder, fetch } = await workplace(t);
  const sha = await repository.commit();
  await fetch('main');
  const controller = new AbortController();
  const making = mirrors.checkout({ ...project, sha, into: join(folder, 'tree'), signal: controller.signal });
  controller.abort(new Error('cancelled'));
  await assert.rejects(making, /cancelled/);
  assert.deepEqual(await readdir(folder), ['runner']);
});

test('submodules come along over SSH with the same key, also nested, and others are named and left out', async (t) => {
  const { host, repository, mirrors, project, folder, log } = await workplace(t);
  const deep = await createRepository(join(host.folder, 'deep.git'));
  const deepSha = await deep.commit({ files: { deep: '1' } });
  const lib = await createRepository(join(host.folder, 'lib.git'));
  const libSha = await lib.commit({
    files: {
      lib: '1',
      '.gitmodules': '[submodule "d"]\n\tpath = deep\n\turl = ../deep.git\n',
      deep: { submodule: deepSha },
    },
  });
  await lib.commit({ files: { lib: '2' } });
  const modules = [
    ['vendor/lib', '../lib.git'],
    ['absolute', host.url('lib.git')],
    ['web', 'https://example.test/lib.git'],
    ['local', join(host.folder, 'lib.git')],
    ['command', 'ext::sh -c touch% /tmp/never'],
  ] as const;
  const declared = modules.map(([path, url]) => `[submodule "${path}"]\n\tpath = ${path}\n\turl = "${url}"\n`);
  const links = Object.fromEntries(modules.map(([path]) => [path, { submodule: libSha }]));
  const sha = await repository.commit({ files: { '.gitmodules': declared.join(''), ...links } });
  const into = join(folder, 'tree');
  await mirrors.checkout({ ...project, sha, into });
  for (const path of ['vendor/lib/lib', 'vendor/lib/deep/deep', 'absolute/lib']) {
    assert.equal(await readFile(join(into, path), 'utf8'), '1', path);
  }
  assert.equal(await gitIn(join(into, 'vendor/lib'), 'rev-parse', 'HEAD'), libSha);
  const text = log();
  for (const path of ['web', 'local', 'command']) {
    assert.deepEqual(await readdir(join(into, path)), [], path);
    assert.match(text, new RegExp(`Submodule ${path} is skipped`));
  }
  assert.equal(await gitIn(into, 'status', '--porcelain', '--ignore-submodules=none'), '');
});

test('a submodule that cannot be fetched is an error, and one that contains itself comes to an end', async (t) => {
  const { host, repository, mirrors, project, folder, log } = await workplace(t);
  const gone = '[submodule "x"]\n\tpath = x\n\turl = ../gone.git\n';
  const first = await repository.commit({ files: { '.gitmodules': gone, x: { submodule: 'e'.repeat(40) } } });
  const into = join(folder, 'tree');
  await assert.rejects(mirrors.checkout({ ...project, sha: first, into }), { kind: 'repository_not_found' });
  assert.match(log(), /gone\.git/);
  const self = await createRepository(join(host.folder, 'self.git'));
  const own = '[submodule "x"]\n\tpath = x\n\turl = ../self.git\n';
  let sha = await self.commit({ files: { '.gitmodules': own } });
  for (let level = 0; level < 3; level += 1) {
    sha = await self.commit({ files: { '.gitmodules': own, x: { submodule: sha } } });
  }
  await mirrors.checkout({ ...project, repositoryUrl: host.url('self.git'), sha, into });
  assert.ok(await exists(join(into, 'x/x/x/.gitmodules')));
});
