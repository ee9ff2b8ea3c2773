import assert from 'node:assert/strict';
import test from 'node:test';
import { readIncluded } from '../../../src/runner/included-files.ts';
import { bytes } from '../../../src/shared/domain/bounds.ts';
import { longestWait } from '../../support/pauses.ts';
import { workplace } from './workplace.ts';

test('single files of another project are read, and nothing else is told of its repository', async (t) => {
  const { repository, mirrors, project, log } = await workplace(t);
  const { projectId, repositoryUrl, privateKey } = project;
  const source = { projectId, repositoryUrl, privateKey };
  const half = '#'.repeat(bytes.includedFiles / 2);
  const secret = 'the-secret-message';
  const sha = await repository.commit({
    message: secret,
    files: {
      'a.toml': 'a = 1\n',
      'half.toml': half,
      'over.toml': Buffer.alloc(4 * 1024 * 1024, '#'),
      'link.toml': { link: 'a.toml' },
      'out.toml': { link: '/etc/passwd' },
      'bytes.toml': Buffer.from([0xff, 0xfe]),
    },
  });
  const theirs = await repository.commit({ on: 'fork', after: sha, files: { 'a.toml': 'evil = true\n' } });
  await repository.git(['update-ref', 'refs/pull/7/head', theirs]);
  await repository.deleteBranch('fork');
  const read = (asked: [ref: string, path: string][], signal = AbortSignal.timeout(longestWait)) =>
    readIncluded(
      mirrors,
      asked.map(([ref, path]) => ({ source, ref, path })),
      signal,
    );
  const main = 'refs/heads/main';
  assert.deepEqual(
    await read([
      [main, 'a.toml'],
      [sha, 'half.toml'],
      [main, 'half.toml'],
    ]),
    [
      { sha, text: 'a = 1\n' },
      { sha, text: half },
      { problem: 'is too much: all included files together may have at most 256 kB' },
    ],
  );
  const noFile = 'is no file there, or is too large, or is not UTF-8 text';
  const paths = ['none.toml', 'over.toml', 'link.toml', 'out.toml', 'bytes.toml'];
  assert.deepEqual(
    await read(paths.map((path) => [main, path])),
    paths.map(() => ({ problem: noFile })),
  );
  const [gone, pull, unknown] = await read([
    ['refs/heads/gone', 'a.toml'],
    [theirs, 'a.toml'],
    ['f'.repeat(40), 'a.toml'],
  ]);
  assert.deepEqual(gone, { problem: 'could not be fetched (ref_not_found)' });
  for (const one of [pull, unknown]) assert.ok(one && 'problem' in one, JSON.stringify(one));
  assert.equal(log(), '', 'the log is of the project that includes');

  await repository.commit({ files: { 'a.toml': 'a = 2\n' } });
  assert.deepEqual(await read([[sha, 'a.toml']]), [{ sha, text: 'a = 1\n' }], 'a pinned one stays');
  await assert.rejects(read([[main, 'a.toml']], AbortSignal.abort()), { name: 'AbortError' });
});
