import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import test from 'node:test';
import { FetchError } from '../../../src/runner/git/failures.ts';
import { longestWait } from '../../support/pauses.ts';
import { createRepository } from '../../support/repository.ts';
import { makeKeyPair } from '../../support/sshd.ts';
import { workplace, type Workplace } from './workplace.ts';

const timeoutMs = longestWait;

async function failure({ mirrors, project }: Workplace, more: object): Promise<FetchError> {
  const thrown: unknown = await mirrors
    .checkAccess({ ...project, timeoutMs, ...more })
    .catch((error: unknown) => error);
  assert.ok(thrown instanceof FetchError, String(thrown));
  return thrown;
}

test('a look shows the branches and the top of the default one, and leaves nothing behind', async (t) => {
  const place = await workplace(t);
  const { host, repository, mirrors, project, dir } = place;
  assert.deepEqual(await mirrors.checkAccess({ ...project, timeoutMs }), {
    defaultBranch: null,
    branches: [],
    files: [],
  });
  await repository.commit({ files: { 'package.json': '{}', 'src/deep.js': '1', 'ünï code': '2' } });
  await repository.branch('feature/x', await repository.sha('main'));
  const seen = await mirrors.checkAccess({ ...project, timeoutMs });
  assert.deepEqual(seen.branches, ['feature/x', 'main']);
  assert.equal(seen.defaultBranch, 'main');
  for (const name of ['package.json', 'src', 'ünï code']) assert.ok(seen.files.includes(name), name);
  assert.ok(!seen.files.includes('deep.js'));
  assert.equal((await failure(place, { repositoryUrl: host.url('none.git') })).kind, 'repository_not_found');
  assert.deepEqual((await readdir(dir)).toSorted(), ['known_hosts', 'run']);
});

test('a failure is explained in words, in time', async (t) => {
  const place = await workplace(t, { connectSeconds: 600 }); // ssh itself would wait for so long
  const { host } = place;
  await createRepository(join(host.folder, 'other.git'));
  const { privateKey } = await makeKeyPair('a stranger');
  const refused = await failure(place, { privateKey });
  assert.equal(refused.kind, 'key_refused');
  assert.match(refused.message, /Install it in the repository/);
  host.freeze();
  t.after(() => host.thaw());
  const began = performance.now();
  const silent = await failure(place, { timeoutMs: 1500, projectId: '2' });
  assert.equal(silent.kind, 'host_unreachable');
  assert.ok(performance.now() - began < 60_000);
});
