import assert from 'node:assert/strict';
import { join } from 'node:path';
import test from 'node:test';
import { createRepository } from '../../support/repository.ts';
import { workplace } from './workplace.ts';

test('a branch is fetched with everything its commit says', async (t) => {
  const { repository, fetch, log } = await workplace(t);
  const parent = await repository.commit({ message: 'Begin', files: { 'a.txt': 'a' } });
  const sha = await repository.commit({
    message: 'Grüße\n\nund mehr\n',
    files: { 'b/c.txt': 'c', 'a.txt': null },
    author: { name: 'Åsa', email: 'asa@example.test' },
    committer: { name: 'Bo', email: 'bo@example.test' },
    authoredAt: '1794693164 +0200',
    committedAt: '1794693164 -0330',
  });
  await repository.branch('feature/x', sha);
  await repository.tag('v1', sha, 'one');
  assert.deepEqual(await fetch('main'), {
    sha,
    parent,
    tree: await repository.sha(`${sha}^{tree}`),
    message: 'Grüße\n\nund mehr',
    authorName: 'Åsa',
    authorEmail: 'asa@example.test',
    authoredDate: '2026-11-14T23:52:44+02:00',
    committerName: 'Bo',
    committerEmail: 'bo@example.test',
    committedDate: '2026-11-14T18:22:44-03:30',
    branches: ['feature/x', 'main'],
    tags: ['v1'],
    files: ['a.txt', 'b/c.txt'],
    filesTruncated: false,
    refKind: 'branch',
    ref: 'refs/heads/main',
    branch: 'main',
    overwritten: false,
    defaultHead: 'this',
    defaultBranch: 'main',
  });
  assert.match(log(), /new branch.*main[\s\S]*Found commit .*Grüße/);
});

test('branches, tags and SHAs are found in all their spellings', async (t) => {
  const { repository, fetch } = await workplace(t);
  const first = await repository.commit();
  const second = await repository.commit();
  const side = await repository.commit({ on: 'team/side', after: first });
  await repository.tag('light', first);
  await repository.tag('release/1.0', second, 'annotated');
  const answer = async (ref: string) => {
    const { sha, refKind, branch } = await fetch(ref);
    return [sha, refKind, branch];
  };
  assert.deepEqual(await answer('team/side'), [side, 'branch', 'team/side']);
  assert.deepEqual(await answer('refs/heads/team/side'), [side, 'branch', 'team/side']);
  assert.deepEqual(await answer('light'), [first, 'tag', 'main']);
  assert.deepEqual(await answer('release/1.0'), [second, 'tag', 'main']);
  assert.deepEqual(await answer('refs/tags/release/1.0'), [second, 'tag', 'main']);
  assert.deepEqual(await answer(side), [side, 'sha', 'team/side']);
  assert.deepEqual(await answer(side.toUpperCase()), [side, 'sha', 'team/side']);
  assert.deepEqual(await answer(first.slice(0, 7)), [first, 'sha', 'main']);
  assert.deepEqual(await answer('HEAD'), [second, 'branch', 'main']);
  assert.deepEqual(await answer(await repository.sha('release/1.0')), [second, 'sha', 'main']);
});

test('a branch is always fetched as it is now, over one connection', async (t) => {
  const { host, repository, fetch, log } = await workplace(t);
  await repository.commit();
  await fetch('main');
  const second = await repository.commit();
  assert.equal((await fetch('main')).sha, second);
  await repository.branch('gone', second);
  assert.deepEqual((await fetch('main')).branches, ['gone', 'main']);
  await repository.deleteBranch('gone');
  await repository.branch('gone/deeper', second);
  assert.deepEqual((await fetch('main')).branches, ['gone/deeper', 'main']);
  await repository.deleteBranch('gone/deeper');
  assert.deepEqual((await fetch('main')).branches, ['main']);
  assert.doesNotMatch(log(), /damaged/);
  assert.equal(host.logins(), 1);
});

test('a full SHA that is known needs no host', async (t) => {
  const { host, repository, fetch, mirrors, openMirrors, project } = await workplace(t);
  const sha = await repository.commit({ files: { 'a.txt': 'a' } });
  const first = await fetch('main');
  await mirrors.close();
  host.freeze();
  const again = await openMirrors();
  for (let time = 0; time < 2; time += 1) {
    const known = await again.fetch({ ...project, commitRef: sha });
    assert.deepEqual({ ...known, refKind: 'branch', ref: 'refs/heads/main' }, first);
  }
  host.thaw();
});

test('a known commit follows its branches', async (t) => {
  const { repository, fetch } = await workplace(t);
  const sha = await repository.commit();
  await repository.commit({ on: 'other', after: null });
  await fetch('main');
  assert.deepEqual((await fetch(sha)).tags, []);
  await repository.tag('later', sha);
  await fetch('other');
  assert.deepEqual((await fetch(sha)).tags, ['later']);
});

test('a commit that no branch leads to is fetched by its SHA', async (t) => {
  const { repository, fetch, fetchFails } = await workplace(t);
  const first = await repository.commit();
  const lost = await repository.commit();
  await repository.overwrite('main', first);
  const found = await fetch(lost);
  assert.deepEqual([found.sha, found.branches, found.branch], [lost, [], null]);
  await fetchFails('ref_not_found', 'f'.repeat(40));
});

test('a fetched commit can be built again after the remote deleted it', async (t) => {
  const { repository, fetch, mirrors } = await workplace(t);
  const first = await repository.commit();
  const lost = await repository.commit();
  await fetch('main');
  await repository.overwrite('main', first);
  await repository.git(['reflog', 'expire', '--expire=now', '--all']);
  await repository.git(['prune', '--expire=now']);
  await fetch('main');
  await mirrors.collect();
  assert.equal((await fetch(lost)).sha, lost);
});

test('a history overwritten by force is noticed, and only that', async (t) => {
  const { repository, fetch } = await workplace(t);
  const first = await repository.commit();
  const second = await repository.commit();
  await repository.tag('v1', second, 'one');
  const fetched = async (ref: string, full: string, previous: string) =>
    (await fetch(ref, { previous: { [full]: previous } })).overwritten;
  assert.equal(await fetched('main', 'refs/heads/main', second), false);
  assert.equal(await fetched('main', 'refs/heads/main', first), false);
  const other = await repository.commit({ after: first });
  assert.equal(await fetched('main', 'refs/heads/main', second), true);
  assert.equal(await fetched('main', 'refs/heads/other', second), false);
  assert.equal(await fetched('main', 'refs/heads/main', 'e'.repeat(40)), true);
  assert.equal(await fetched('v1', 'refs/tags/v1', first), false);
  await repository.tag('v1', other, 'moved');
  assert.equal(await fetched('v1', 'refs/tags/v1', second), true);
  assert.equal(await fetched(other, 'refs/heads/main', second), false);
});

test('the overwritten history is noticed by a runner that never saw it', async (t) => {
  const { repository, project, openMirrors, folder } = await workplace(t);
  const first = await repository.commit();
  const second = await repository.commit();
  await repository.commit({ after: first });
  const other = await openMirrors({ dir: join(folder, 'other-runner') });
  const fetched = await other.fetch({ ...project, commitRef: 'main', previous: { 'refs/heads/main': second } });
  assert.equal(fetched.overwritten, true);
});

test('files are those that changed against the first parent', async (t) => {
  const { repository, fetch } = await workplace(t);
  const odd = 'new\nline "quoted" \\ and ü';
  const base = await repository.commit({ files: { a: '1', [odd]: 'x' } });
  const first = await fetch('main');
  assert.deepEqual([first.parent, first.files], [undefined, ['a', odd]]);
  const side = await repository.commit({ on: 'side', after: base, files: { s: '1' } });
  await repository.commit({ files: { m: '1' } });
  const before = (await fetch('main')).sha;
  await repository.commit({ message: 'Merge', merging: [side], files: { s: '1' } });
  const merge = await fetch('main');
  assert.deepEqual([merge.parent, merge.files], [before, ['s']]);
  await repository.commit({ files: {} });
  assert.deepEqual((await fetch('main')).files, []);
  await repository.commit({ files: { a: null, b: '1' } });
  assert.deepEqual((await fetch('main')).files, ['a', 'b']);
});

test('a commit with very many files is recorded in part, and says so', async (t) => {
  const { repository, fetch, log } = await workplace(t);
  await repository.commit({ files: Object.fromEntries(Array.from({ length: 10_001 }, (_, n) => [`f/${n}`, ''])) });
  const fetched = await fetch('main');
  assert.equal(fetched.files.length, 10_000);
  assert.equal(fetched.filesTruncated, true);
  assert.match(log(), /more files than Headrace records/);
});

test('a commit as only old or foreign tools write it is read to the letter', async (t) => {
  const { repository, fetch } = await workplace(t);
  await repository.commit({
    message: Buffer.from('Gr\xfc\xdfe', 'latin1'),
    author: { name: 'J\xfcrgen', email: 'j@example.test' },
    encoding: 'ISO-8859-1',
    authoredAt: '1794693164 +0545',
  });
  const latin = await fetch('main');
  assert.deepEqual([latin.message, latin.authorName], ['Grüße', 'Jürgen']);
  assert.equal(latin.authoredDate, '2026-11-15T03:37:44+05:45');
  const tree = await repository.sha('main^{tree}');
  const raw = `tree ${tree}\nauthor <a@example.test> -86400 -0330\ncommitter  <> 0 +0000\n\n`;
  const sha = await repository.git(['hash-object', '-t', 'commit', '-w', '--literally', '--stdin'], raw);
  await repository.overwrite('main', sha);
  const odd = await fetch('main');
  assert.deepEqual([odd.authorName, odd.authorEmail, odd.message, odd.committerName], ['', 'a@example.test', '', '']);
  assert.equal(odd.authoredDate, '1969-12-30T20:30:00-03:30');
});

test('two fetches of one project at once are safe, also from two runners', async (t) => {
  const { repository, fetch, project, openMirrors } = await workplace(t);
  const sha = await repository.commit();
  const second = await openMirrors();
  const fetched = await Promise.all([
    fetch('main'),
    fetch('main'),
    fetch(sha),
    second.fetch({ ...project, commitRef: 'main' }),
    second.fetch({ ...project, commitRef: sha }),
  ]);
  assert.deepEqual(
    fetched.map((commit) => commit.sha),
    Array(5).fill(sha),
  );
});

test('a project that moves to another repository finds nothing of the old one', async (t) => {
  const { host, repository, fetch, fetchFails } = await workplace(t);
  const old = await repository.commit({ files: { old: '1' } });
  await fetch('main');
  const elsewhere = await createRepository(join(host.folder, 'elsewhere.git'));
  const sha = await elsewhere.commit({ files: { fresh: '1' } });
  const moved = { repositoryUrl: host.url('elsewhere.git') };
  assert.equal((await fetch('main', moved)).sha, sha);
  await fetchFails('ref_not_found', old, moved);
});
