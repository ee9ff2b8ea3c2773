import assert from 'node:assert/strict';
import test from 'node:test';
import { workplace } from './workplace.ts';

test('a tag belongs to the default branch, whatever other branch ends in it', async (t) => {
  const { repository, fetch } = await workplace(t);
  const released = await repository.commit();
  await repository.branch('aaa', released);
  await repository.tag('v1', released, 'one');
  await repository.commit();
  assert.equal((await fetch('v1')).branch, 'main');
  assert.equal((await fetch(released)).branch, 'aaa'); // by its SHA it is what was just pushed there
  const fix = await repository.commit({ on: 'aaa' });
  await repository.tag('v1.1', fix);
  assert.equal((await fetch('v1.1')).branch, 'aaa'); // the default branch does not have it
});

test('the default branch is known also where several branches end in the same commit', async (t) => {
  const { repository, fetch } = await workplace(t);
  const sha = await repository.commit();
  for (const name of ['develop', 'aaa', 'zzz']) await repository.branch(name, sha);
  await repository.tag('v1', sha);
  await repository.git(['symbolic-ref', 'HEAD', 'refs/heads/develop']);
  assert.equal((await fetch('v1')).branch, 'develop');
  assert.equal((await fetch('HEAD')).ref, 'refs/heads/develop');
  await repository.git(['symbolic-ref', 'HEAD', 'refs/heads/zzz']);
  assert.equal((await fetch('v1')).branch, 'zzz');
  await repository.deleteBranch('main');
  await repository.git(['symbolic-ref', 'HEAD', 'refs/heads/nowhere']);
  assert.equal((await fetch('v1')).branch, 'aaa');
});

test('the newest commit that was built of the default branch is told', async (t) => {
  const { repository, fetch } = await workplace(t);
  const first = await repository.commit();
  const second = await repository.commit();
  const side = await repository.commit({ on: 'side', after: first });
  const defaultHead = async (ref: string, before: string | null) =>
    (await fetch(ref, { defaultHead: before })).defaultHead;
  assert.equal(await defaultHead('side', null), 'none');
  assert.equal(await defaultHead('main', null), 'this');
  assert.equal(await defaultHead(first, null), 'this');
  for (let time = 0; time < 2; time += 1) {
    assert.equal(await defaultHead(second, first), 'this');
    assert.equal(await defaultHead(second, second), 'this');
    assert.equal(await defaultHead(first, second), 'kept'); // an older one that is looked at later
    assert.equal(await defaultHead('side', second), 'kept');
  }
  const merge = await repository.commit({ merging: [side] });
  assert.equal(await defaultHead(side, second), 'kept'); // on the branch now, and not newer
  assert.equal(await defaultHead('main', second), 'this');
  await repository.overwrite('main', first);
  assert.equal(await defaultHead('side', merge), 'none');
  assert.equal(await defaultHead('main', merge), 'this');
  assert.equal(await defaultHead('side', 'e'.repeat(40)), 'none');
});

test('a ref outside branches and tags is fetched by its full name', async (t) => {
  const { repository, fetch, fetchFails, log } = await workplace(t);
  const base = await repository.commit();
  const proposed = await repository.commit({ message: 'Proposed' });
  await repository.overwrite('main', base);
  await repository.git(['update-ref', 'refs/pull/7/head', proposed]);
  const found = await fetch('refs/pull/7/head');
  assert.deepEqual(
    [found.sha, found.ref, found.branch, found.branches, found.defaultHead],
    [proposed, 'refs/pull/7/head', null, [], 'none'],
  );
  log();
  assert.match(await fetchFails('ref_not_found', 'refs/pull/8/head'), /no ref “refs\/pull\/8\/head”/);
  // What one ref was is not what the next one is taken for, and an overwritten one is noticed.
  const other = await repository.commit({ on: 'other', after: base });
  await repository.git(['update-ref', 'refs/pull/7/head', other]);
  const again = await fetch('refs/pull/7/head', { previous: { 'refs/pull/7/head': proposed } });
  assert.deepEqual([again.sha, again.branch, again.overwritten], [other, 'other', true]);
  await fetchFails('invalid_ref', 'refs/pull/*/head');
});
