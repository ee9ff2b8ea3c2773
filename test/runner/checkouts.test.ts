import assert from 'node:assert/strict';
import { mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import test from 'node:test';
import { run } from '../../src/shared/lib/processes.ts';
import { openCheckouts } from '../../src/runner/checkouts.ts';
import { workplace } from './git/workplace.ts';
import { longestWait } from '../support/pauses.ts';
import { lacks } from '../support/machine.ts';

const { signal } = new AbortController();
/** As long as a path can be that git writes, and as deep. */
const paths = {
  long: `${'d'.repeat(200)}/`.repeat(19) + 'f'.repeat(200),
  deep: `${'d/'.repeat(1900)}f`,
};

for (const [name, path] of Object.entries(paths)) {
  test(`a work tree with a ${name} path is made, and removed by the next runner`, async (t) => {
    const { repository, mirrors, project, folder } = await workplace(t);
    const sha = await repository.commit({ files: { [path]: 'x', beside: 'y' } });
    const where = join(folder, 'checkouts');
    const first = await openCheckouts(where, mirrors, assert.fail);
    using checkout = await first.of(project, { sha, isFork: false }, () => {}, signal);
    assert.deepEqual(
      (await readdir(checkout.path)).toSorted(),
      ['.git', 'beside', path.split('/')[0] ?? ''].toSorted(),
    );
    await openCheckouts(where, mirrors, assert.fail);
    assert.deepEqual(await readdir(where), []);
  });
}

test('a work tree is made for others who wait for it, if the first one leaves', async (t) => {
  const { repository, mirrors, project, folder } = await workplace(t);
  const sha = await repository.commit({ files: { a: '1' } });
  const checkouts = await openCheckouts(join(folder, 'checkouts'), mirrors, assert.fail);
  const first = new AbortController();
  const [leaving, staying] = [first.signal, signal].map((one) =>
    checkouts.of(project, { sha, isFork: false }, () => {}, one),
  );
  first.abort(new Error('called off'));
  await assert.rejects(leaving ?? Promise.resolve(), /called off/);
  using checkout = await staying;
  assert.deepEqual((await readdir(checkout?.path ?? '')).toSorted(), ['.git', 'a']);
});

test('a work tree goes when room is needed', async (t) => {
  const { repository, mirrors, project, folder } = await workplace(t);
  const where = join(folder, 'checkouts');
  const checkouts = await openCheckouts(where, mirrors, assert.fail);
  const shas: string[] = [];
  for (let count = 0; count < 34; count += 1)
    shas.push(await repository.commit({ files: { [count < 2 ? paths.long : 'short']: `${count}` } }));
  const take = async (sha: string, isFork: boolean) =>
    (await checkouts.of(project, { sha, isFork }, () => {}, signal))[Symbol.dispose]();
  for (const sha of shas) await take(sha, false);
  const settled = async (most: number): Promise<void> => {
    for (const start = Date.now(); (await readdir(where)).length > most;) assert.ok(Date.now() - start < longestWait);
  };
  await settled(32);
  // Those of forks do not share the history, and few are kept.
  for (const sha of shas.slice(-6)) await take(sha, true);
  await settled(32 + 4);
});

test('one thing that cannot be removed stops neither the start nor the rest', { skip: lacks('root') }, async (t) => {
  const { mirrors, folder } = await workplace(t);
  const where = join(folder, 'checkouts');
  for (const name of ['a', 'stays', 'z']) await mkdir(join(where, name), { recursive: true });
  await run('mount', ['-t', 'tmpfs', 'tmpfs', join(where, 'stays')]);
  const logged: string[] = [];
  try {
    await openCheckouts(where, mirrors, (message) => void logged.push(message));
  } finally {
    await run('umount', [join(where, 'stays')]);
  }
  assert.deepEqual(await readdir(where), ['stays']);
  assert.equal(logged.length, 1);
  assert.match(logged[0] ?? '', /stays until the next start/);
});
