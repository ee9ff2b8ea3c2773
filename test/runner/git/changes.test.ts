import assert from 'node:assert/strict';
import test from 'node:test';
import type { Comparison } from '../../../src/shared/protocol/index.ts';
import { workplace } from './workplace.ts';

test('which files changed depends on what a commit is compared with', async (t) => {
  const { repository, fetch, log } = await workplace(t);
  const [first, second] = [
    await repository.commit({ files: { a: '1' } }),
    await repository.commit({ files: { b: '1' } }),
  ];
  // A topic of two commits, beside which the default branch goes on and is merged into a release.
  await repository.commit({ on: 'topic', after: first, files: { t1: '1' } });
  const topic = await repository.commit({ on: 'topic', files: { t2: '1' } });
  const merged = await repository.commit({ message: 'Merge', merging: [topic], files: { t1: '1', t2: '1' } });
  const release = await repository.commit({ on: 'release', after: first, files: { r: '1' } });
  const fix = await repository.commit({ on: 'fix', after: release, files: { f: '1' } });
  await repository.commit({ on: 'rewritten', after: second, files: { n: '1' } });
  const alone = await repository.commit({ on: 'alone', after: null, files: { z: '1' } });
  await repository.git([
    'update-ref',
    'refs/pull/7/head',
    await repository.commit({ on: 'fork', after: second, files: { k: '1' } }),
  ]);
  await repository.deleteBranch('fork');
  const gone = '9'.repeat(40);
  const own = undefined;
  type Case = [what: string, ref: string, compare: Comparison, files: string[] | undefined, base?: string | null];
  const cases: Case[] = [
    ['by hand, on the default branch', 'main', { asked: true }, own],
    ['by hand, elsewhere and merged since', 'topic', { asked: true }, own],
    ['by hand, elsewhere', 'fix', { asked: true }, ['f', 'r'], first],
    ['a push of several commits', 'topic', { before: first }, ['t1', 't2'], first],
    ['a push of a merge', 'main', { before: second }, ['t1', 't2'], second],
    ['a push of a merge to another branch', 'main', { before: first }, ['b', 't1', 't2'], first],
    ['a push by force, to the side', 'rewritten', { before: topic }, ['b', 'n', 't1', 't2'], topic],
    ['a push by force, back', 'release', { before: fix }, ['f'], fix],
    ['a push from what is gone', 'rewritten', { before: gone }, ['n'], second],
    ['a new branch', 'rewritten', { leaving: null }, ['n'], second],
    ['a new branch without a commit of its own', 'topic', { leaving: null }, [], topic],
    ['the default branch, when it is new', 'main', { leaving: null }, ['a', 'b', 't1', 't2'], null],
    ['a branch of another history', 'alone', { leaving: null }, ['z'], null],
    ['a pull request to another branch', 'fix', { leaving: 'release' }, ['f'], release],
    ['a pull request to a branch that is gone', 'fix', { leaving: 'nowhere' }, ['f', 'r'], first],
    ['a fork’s pull request', 'refs/pull/7/head', { leaving: 'main' }, ['k'], second],
  ];
  assert.ok(merged && alone);
  for (const [what, ref, compare, files, base] of cases) {
    const { changes } = await fetch(ref, { compare });
    assert.deepEqual([changes?.files, changes?.base], [files, base], `${what}: ${changes?.comparedWith}`);
    if (changes) assert.match(log(), new RegExp(`Comparing its files with ${changes.comparedWith}`), what);
  }
});
