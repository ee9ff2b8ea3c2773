import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import test from 'node:test';
import { run } from '../../../src/shared/lib/processes.ts';
import { MergeConflict } from '../../../src/runner/git/merge.ts';
import type { NewCommit } from '../../support/repository.ts';
import { workplace, type Workplace } from './workplace.ts';

const fetchRef = 'refs/pull/7/head';
const merge = { into: 'main', name: '42' };

/** The head of a fork's pull request: only its ref leads to it. */
async function propose({ repository }: Workplace, commit: NewCommit): Promise<string> {
  const sha = await repository.commit({ on: 'proposed', ...commit });
  await repository.git(['update-ref', fetchRef, sha]);
  await repository.deleteBranch('proposed');
  return sha;
}

async function gitIn(tree: string, ...args: string[]): Promise<string> {
  const env = { PATH: process.env['PATH'], GIT_CONFIG_GLOBAL: '/dev/null', GIT_CONFIG_NOSYSTEM: '1' };
  const { stdout } = await run('git', ['-c', 'safe.directory=*', ...args], { cwd: tree, env });
  return stdout.toString().trim();
}

test('a head is merged into the target as it is then, and every runner makes the same merge', async (t) => {
  const place = await workplace(t);
  const { repository, fetch, mirrors, project, folder, log, openMirrors } = place;
  const began = await repository.commit({ files: { 'a.txt': '1\n2\n3\n', 'old.txt': 'x\n'.repeat(9) } });
  await fetch('main');
  const head = await propose(place, {
    after: began,
    files: { 'a.txt': '1\n2\n3\nhead\n', 'old.txt': null, 'new.txt': 'x\n'.repeat(9) },
  });
  const base = await repository.commit({ files: { 'a.txt': 'base\n1\n2\n3\n', 'old.txt': `y\n${'x\n'.repeat(9)}` } });
  await repository.tag('v1', base);
  const found = await fetch(head, { fetchRef, merge, compare: { leaving: 'main' } });
  assert.deepEqual([found.sha, found.merge?.base], [head, base], 'the mirror knew an older target');
  assert.deepEqual([found.branches, found.changes?.files.toSorted()], [[], ['a.txt', 'new.txt', 'old.txt']]);
  const { sha = '' } = found.merge ?? {};
  assert.match(log(), new RegExp(`Found commit ${head}[\\s\\S]*Merged it into ${base}, as commit ${sha}`));
  const again = await fetch(head, { fetchRef, merge });
  assert.deepEqual(again.merge, found.merge);
  const other = await fetch(head, { fetchRef, merge: { ...merge, name: '43' } });
  assert.notEqual(other.merge?.sha, sha, 'another request has another merge');
  await place.fetchFails('ref_not_found', sha); // the mirror has only what the remote has

  // Meanwhile the target was overwritten and the pull request has another head.
  await repository.overwrite('main', began);
  await repository.git(['update-ref', fetchRef, began]);
  await repository.git(['config', 'uploadpack.allowAnySHA1InWant', 'true']);
  const elsewhere = await openMirrors({ dir: join(folder, 'other runner: "2"') });
  for (const [at, isFork] of [
    [mirrors, true],
    [elsewhere, true],
    [elsewhere, false],
  ] as const) {
    const into = join(folder, `tree-${at === mirrors}-${isFork}`);
    await at.checkout({ ...project, sha, isFork, fetchRef, merge: { head, base, name: '42' }, into });
    assert.equal(await readFile(join(into, 'a.txt'), 'utf8'), 'base\n1\n2\n3\nhead\n');
    assert.equal(await readFile(join(into, 'new.txt'), 'utf8'), `y\n${'x\n'.repeat(9)}`, 'a moved file is merged');
    assert.deepEqual((await readdir(into)).toSorted(), ['.git', 'a.txt', 'new.txt']);
    assert.equal(await gitIn(into, 'status', '--porcelain'), '');
    assert.equal(await gitIn(into, 'log', '-1', '--format=%H %P %an'), `${sha} ${base} ${head} Headrace`);
    assert.equal(await gitIn(into, 'fsck', '--strict', '--no-dangling'), '');
  }
  const wrong = { ...project, sha: began, isFork: true, fetchRef, merge: { head, base, name: '42' } };
  await assert.rejects(mirrors.checkout({ ...wrong, into: join(folder, 'wrong') }), { kind: 'merge_not_possible' });
});

test('a conflict names its files, however they are called', async (t) => {
  const place = await workplace(t);
  const { repository, fetch, project, mirrors, log } = place;
  const hostile = ['two\nlines', '\u001B[31mred', 'right\u202Eleft', '-rf', 'say "hello"', 'Á'];
  const many = Array.from({ length: 200 }, (_, at) => `Ωmany/${at}`);
  const files = (text: string) => Object.fromEntries([...hostile, ...many].map((name) => [name, `${text}\n`]));
  const began = await repository.commit({ files: files('began') });
  const head = await propose(place, { after: began, files: files('head') });
  const base = await repository.commit({ files: files('base') });
  log();
  const error = await fetch(head, { fetchRef, merge }).catch((thrown: unknown) => thrown);
  assert.ok(error instanceof MergeConflict);
  assert.deepEqual(error.merge, { head, base });
  assert.deepEqual(error.files.toSorted(), [...hostile, ...many].toSorted());
  const lines = log().split('\n');
  const begins = lines.indexOf(`Commit ${head} cannot be merged into ${base}. These files conflict:`);
  const listed = lines.slice(begins + 1, begins + 102);
  assert.ok(begins >= 0 && listed.every((line) => line.startsWith('  ')), lines.join('\n'));
  assert.equal(listed.at(-1), '  and more');
  const shown = String.raw`  "two\nlines"|  "\u001b[31mred"|  "right\u202eleft"|  -rf|  "say \"hello\""|  Á`.split('|');
  assert.deepEqual(
    shown.filter((line) => !listed.includes(line)),
    [],
    lines.join('\n'),
  );
  // Nothing of it stays in the mirror, and the next merge is possible.
  const fixed = await propose(place, { after: base, files: { fine: '' } });
  const { merge: made } = await fetch(fixed, { fetchRef, merge });
  assert.equal(made?.base, base);
  assert.equal((await mirrors.fetch({ ...project, commitRef: 'main' })).sha, base);
});

test('heads that are merged already, ahead of the target or unrelated, and a target that is gone', async (t) => {
  const place = await workplace(t);
  const { repository, fetch, fetchFails } = place;
  const began = await repository.commit({ files: { a: '1' } });
  const base = await repository.commit({ files: { b: '2' } });
  const ahead = await propose(place, { after: base, files: { c: '3' } });
  for (const [head, by] of [
    [began, 'refs/heads/main'],
    [base, 'refs/heads/main'],
    [ahead, fetchRef],
  ] as const) {
    const found = await fetch(head, { fetchRef: by, merge });
    assert.equal(found.merge?.base, base);
    assert.notEqual(found.merge.sha, head, 'the merge is always a commit of its own');
  }
  const unrelated = await propose(place, { after: null, files: { z: '9' } });
  assert.match(await fetchFails('merge_conflict', unrelated, { fetchRef, merge }), /no commit in common/);
  assert.match(
    await fetchFails('ref_not_found', ahead, { fetchRef, merge: { into: 'gone', name: '1' } }),
    /target branch “gone” of the pull request does not exist/,
  );
});

test('a merge runs no program and obeys no attributes of the repository [promise: git-sandbox]', async (t) => {
  const place = await workplace(t);
  const { repository, fetch, project, mirrors, folder } = place;
  const attributes = '* merge=evil\n*.txt merge=union filter=evil\n*.bin merge=ours\n';
  const evil = '[merge "evil"]\n\tdriver = touch /tmp/evil\n[filter "evil"]\n\tsmudge = touch /tmp/evil\n';
  const began = await repository.commit({
    files: {
      '.gitattributes': attributes,
      '.gitconfig': evil,
      '.git-hooks/post-checkout': { executable: '#!/bin/sh\ntouch /tmp/evil\n' },
      'a.txt': '0\n',
      b: 'began\n',
    },
  });
  const head = await propose(place, { after: began, files: { b: 'head\n', 'dir/.gitattributes': '* merge=evil\n' } });
  await repository.commit({ files: { 'c.txt': 'base\n' } });
  const { merge: made } = await fetch(head, { fetchRef, merge });
  assert.ok(made);
  const into = join(folder, 'tree');
  const wanted = { head, base: made.base, name: merge.name };
  await mirrors.checkout({ ...project, sha: made.sha, isFork: true, fetchRef, merge: wanted, into });
  assert.equal(await readFile(join(into, 'b'), 'utf8'), 'head\n');
  const other = await propose(place, { after: began, files: { 'a.txt': 'head\n' } });
  await repository.commit({ files: { 'a.txt': 'base\n' } });
  await assert.rejects(
    fetch(other, { fetchRef, merge }),
    { kind: 'merge_conflict', files: ['a.txt'] },
    'not a union of both',
  );
});
