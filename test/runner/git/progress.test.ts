import assert from 'node:assert/strict';
import test from 'node:test';
import { withoutProgress } from '../../../src/runner/git/progress.ts';
import { createRepository } from '../../support/repository.ts';
import { join } from 'node:path';
import { workplace } from './workplace.ts';

/** What is left of words that come in pieces of this size. */
async function sift(words: string, size: number): Promise<string> {
  let told = '';
  const heard = withoutProgress(async (chunk) => void (told += chunk.toString()));
  const bytes = Buffer.from(words);
  for (let at = 0; at < bytes.length; at += size) await heard.output(bytes.subarray(at, at + size));
  await heard.flush();
  return told;
}

test('the log of a fetch, a push and a checkout has no line of progress', async (t) => {
  const { host, repository, fetch, mirrors, project, folder, log } = await workplace(t);
  const many = Array.from({ length: 3000 }, (_, at) => [`f/${at}`, `content ${at}\n`]);
  const sha = await repository.commit({ files: Object.fromEntries(many) });
  await createRepository(join(host.folder, 'live.git'));
  await fetch('main');
  await mirrors.checkout({ ...project, sha, into: join(folder, 'tree') });
  const target = { remoteUrl: host.url('live.git'), localBranch: 'main', remoteBranch: 'live' };
  assert.equal((await mirrors.push({ ...project, ...target, sha })).pushed, true);
  const said = log();
  assert.match(said, /Found commit/);
  assert.match(said, /\[new branch\]/);
  assert.doesNotMatch(said, /\d%|\r[^\n]|objects|deltas|Total/);
});

test('progress is left out however it is cut, and nothing else is', async () => {
  const progress =
    'remote: Enumerating objects: 12, done.\n' +
    'remote: Counting objects:   8% (1/12)\rremote: Counting objects: 100% (12/12), done.\x1b[K\n' +
    'remote: Compressing objects:  50% (1/2)        \r' +
    'Receiving objects:  33% (4/12), 1.20 MiB | 980.00 KiB/s\rReceiving objects: 100% (12/12), 3.00 MiB | 1.00 MiB/s, done.\r\n' +
    'remote: Finding sources: 7\rremote: Total 12 (delta 3), reused 0 (delta 0), pack-reused 0\n' +
    'Delta compression using up to 4 threads\n';
  const words =
    'remote: Deployed version: 5\nremote: 100% of the tests passed\r\nWarning: 3, done with it\nContent: \xff\u{1F600}\n\n\r\n' +
    `${'x'.repeat(2000)}: 100% (1/1)\nremote: no end of the line`;
  for (const size of [1, 2, 7, 64, 10_000]) {
    assert.equal(await sift(progress + words, size), words);
    assert.equal(await sift(words.replace('remote: no end of the line', progress), size), words.slice(0, -26));
  }
});
