import assert from 'node:assert/strict';
import { join } from 'node:path';
import test from 'node:test';
import { run } from '../../../src/shared/lib/processes.ts';
import type { Repository } from '../../support/repository.ts';
import { workplace } from './workplace.ts';

/** A commit that no branch leads to, as forges keep those of pull requests. */
async function pullRequest(repository: Repository, number: number, more: { message?: string } = {}): Promise<string> {
  const sha = await repository.commit({ on: `pull-${number}`, after: await repository.sha('main'), ...more });
  await repository.git(['update-ref', `refs/pull/${number}/head`, sha]);
  await repository.deleteBranch(`pull-${number}`);
  return sha;
}

test('a commit that only a ref of its own leads to is fetched by that ref', async (t) => {
  const { repository, fetch, fetchFails, log } = await workplace(t);
  await repository.commit();
  const sha = await pullRequest(repository, 7);
  const fetchRef = 'refs/pull/7/head';
  const found = await fetch(sha, { fetchRef });
  assert.deepEqual([found.sha, found.branches, found.ref], [sha, [], null]);
  assert.match(log(), /\[new ref\] +refs\/pull\/7\/head/, 'not by its SHA, which not every host gives out');
  await fetch(sha, { fetchRef });
  assert.doesNotMatch(log(), /From /, 'what is known costs no connection');
  // An older commit of the same pull request, which is reachable from the newer one.
  const newer = await repository.commit({ on: 'again', after: sha });
  await repository.git(['update-ref', fetchRef, newer]);
  await repository.deleteBranch('again');
  assert.equal((await fetch(newer.slice(0, 12), { fetchRef })).sha, newer, 'a short SHA is enough');
  assert.match(
    await fetchFails('ref_not_found', 'd'.repeat(40), { fetchRef }),
    /commit d+ is no longer in .*, and “refs\/pull\/7\/head” does not contain it: it was overwritten or deleted/,
  );
  await fetchFails('ref_not_found', 'd'.repeat(40), { fetchRef: 'refs/pull/99/head' });
  await fetchFails('invalid_ref', sha, { fetchRef: '--upload-pack=x' });
  await fetchFails('invalid_ref', 'main', { fetchRef });
});

test('a work tree of a commit that only a ref of its own leads to is made by a runner that never fetched it', async (t) => {
  const { repository, mirrors, project, folder, log } = await workplace(t);
  await repository.commit();
  const sha = await pullRequest(repository, 7);
  const into = join(folder, 'tree');
  await mirrors.checkout({ ...project, sha, fetchRef: 'refs/pull/7/head', into });
  assert.match(log(), /\[new ref\] +refs\/pull\/7\/head/, 'not by its SHA, which not every host gives out');
  const head = await run('git', ['-c', 'safe.directory=*', '-C', into, 'rev-parse', 'HEAD']);
  assert.equal(head.stdout.toString().trim(), sha);
});

test('a commit is looked for anew when it is told to be on a branch that is not known to have it', async (t) => {
  const { repository, fetch, log } = await workplace(t);
  const sha = await repository.commit();
  assert.deepEqual((await fetch(sha, { fetchRef: 'refs/heads/main' })).branches, ['main']);
  log();
  assert.deepEqual((await fetch(sha, { fetchRef: 'refs/heads/main' })).branches, ['main']);
  assert.doesNotMatch(log(), /From /, 'what is known costs no connection');
  await repository.branch('release', sha);
  await repository.tag('v1', sha, 'with a message');
  const again = await fetch(sha, { fetchRef: 'refs/heads/release' });
  assert.deepEqual([again.branches, again.ref], [['main', 'release'], 'refs/heads/release']);
  assert.deepEqual((await fetch(sha, { fetchRef: 'refs/tags/v1' })).tags, ['v1']);
  await repository.tag('v2', sha, 'another');
  const tagged = await fetch(await repository.sha('v2'), { fetchRef: 'refs/tags/v2' });
  assert.deepEqual([tagged.sha, tagged.tags], [sha, ['v1', 'v2']], 'by the name of the tag itself');
});

test('a commit that was overwritten meanwhile is built where it can be fetched, and the report says so', async (t) => {
  const { repository, fetch, fetchFails, log } = await workplace(t);
  const first = await repository.commit();
  const lost = await repository.commit();
  const fetchRef = 'refs/heads/main';
  const seen = await fetch(lost, { fetchRef });
  assert.equal(seen.ref, fetchRef);
  const third = await repository.commit({ after: first });
  const other = await fetch(third, { fetchRef, previous: { [fetchRef]: lost } });
  assert.deepEqual([other.ref, other.overwritten], [fetchRef, true], 'its version is one higher');
  log();
  const late = await fetch(lost, { fetchRef });
  assert.deepEqual([late.sha, late.branches, late.ref], [lost, [], null], 'on no branch: as a stranger’s is');
  assert.match(log(), /“refs\/heads\/main” no longer contains this commit/);
  // An earlier commit of the branch is on it, though the branch has moved on: that is no other history.
  const passed = await fetch(first, { fetchRef, previous: { [fetchRef]: third } });
  assert.deepEqual([passed.ref, passed.overwritten, passed.branches], [null, false, ['main']]);
  await repository.git(['reflog', 'expire', '--expire=now', '--all']);
  await repository.git(['gc', '--quiet', '--prune=now']);
  const text = await fetchFails('ref_not_found', 'e'.repeat(40), { fetchRef: 'refs/heads/gone' });
  assert.match(text, /“refs\/heads\/gone” does not contain it/);
});
