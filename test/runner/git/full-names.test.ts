import assert from 'node:assert/strict';
import test from 'node:test';
import { workplace } from './workplace.ts';

/* A name that is part of a longer one. Who may push any branch, but not to `release`, chooses these names. */

test('a branch that is called by the full name of another one is never taken for it [promise: limited-variables]', async (t) => {
  const { repository, fetch, fetchFails, log } = await workplace(t);
  const main = await repository.commit();
  const trap = await repository.commit({ on: 'trap' });
  const named = ['refs/heads/release', 'refs/tags/v9', 'refs/heads/main', 'heads/main', 'tags/v9'];
  for (const name of named) await repository.branch(name, trap);
  for (const asked of ['release', 'refs/heads/release', 'v9', 'refs/tags/v9']) await fetchFails('ref_not_found', asked);
  for (const asked of ['main', 'refs/heads/main', 'HEAD']) {
    const { sha, ref } = await fetch(asked);
    assert.deepEqual([sha, ref], [main, 'refs/heads/main'], asked);
  }
  for (const name of named) {
    const { sha, ref, branch, refKind } = await fetch(`refs/heads/${name}`);
    assert.deepEqual([sha, ref, branch, refKind], [trap, `refs/heads/${name}`, name, 'branch']);
  }
  log();
  for (const fetchRef of ['refs/heads/release', 'refs/tags/v9', 'refs/heads/main']) {
    const { sha, ref, branches, tags } = await fetch(trap, { fetchRef });
    assert.deepEqual([sha, ref, branches, tags], [trap, null, [...named, 'trap'].toSorted(), []], fetchRef);
    assert.ok(log().includes(`“${fetchRef}” no longer contains this commit`));
  }
  const target = await repository.commit({ on: 'proposed', after: main, files: { new: '' } });
  const compared = await fetch(target, { compare: { leaving: 'release' } });
  assert.deepEqual(compared.changes, {
    base: main,
    comparedWith: 'the merge base with the default branch',
    files: ['new'],
  });
});

test('a tag and a branch of one name are two refs [promise: limited-variables]', async (t) => {
  const { repository, fetch, fetchFails } = await workplace(t);
  const main = await repository.commit();
  const other = await repository.commit({ on: 'other' });
  await repository.tag('main', other);
  assert.match(await fetchFails('ambiguous_ref', 'main'), /Request refs\/tags\/main or refs\/heads\/main instead/);
  const found = async (asked: string) => {
    const { sha, ref, refKind } = await fetch(asked);
    return [sha, ref, refKind];
  };
  assert.deepEqual(await found('refs/heads/main'), [main, 'refs/heads/main', 'branch']);
  assert.deepEqual(await found('refs/tags/main'), [other, 'refs/tags/main', 'tag']);
  await repository.tag('main', main, 'with a message');
  assert.deepEqual(await found('main'), [main, 'refs/heads/main', 'branch']);
  assert.deepEqual(await found('refs/tags/main'), [main, 'refs/tags/main', 'tag']);
  await repository.overwrite('main', other);
  await repository.deleteBranch('other');
  await repository.git(['update-ref', '-d', 'refs/heads/main']);
  assert.deepEqual(await found('main'), [main, 'refs/tags/main', 'tag']);
  await fetchFails('ref_not_found', 'refs/heads/main');
});

test('a branch that is called by digits of a commit is not taken for that commit', async (t) => {
  const { repository, fetch } = await workplace(t);
  const sha = await repository.commit();
  const trap = await repository.commit({ on: 'trap' });
  const short = sha.slice(0, 12);
  await repository.git(['update-ref', `refs/heads/${short}`, trap]);
  assert.equal((await fetch(short, { fetchRef: 'refs/heads/main' })).sha, sha, 'as some forges tell of a push');
  assert.deepEqual((({ sha: by, ref }) => [by, ref])(await fetch(short)), [trap, `refs/heads/${short}`]);
});
