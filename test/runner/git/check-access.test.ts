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
    workflows: [],
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

for (const filters of [true, false])
  test(`a look brings the files of other CI systems ${filters ? 'alone' : 'from a host without filters'}, within limits`, async (t) => {
    const place = await workplace(t);
    const { repository, mirrors, project } = place;
    await repository.git(['config', 'uploadpack.allowFilter', String(filters)]);
    const many = Object.fromEntries(Array.from({ length: 150 }, (_, at) => [`.woodpecker/${at}.yml`, `steps: ${at}`]));
    await repository.commit({
      files: {
        '.github/workflows/ci.yml': 'on: push',
        '.github/workflows/link.yml': { link: '/etc/passwd' },
        '.github/workflows/notes.md': 'no',
        '.github/workflows/large.yaml': '#'.repeat(131_073),
        '.github/workflows/nul.yml': 'a\0b',
        '.github/workflows/deeper/x.yml': 'on: push',
        '.github/CODEOWNERS': 'x',
        '.gitlab-ci.yml': { link: '/etc/passwd' },
        '.travis.yml': 'language: c',
        'src/large.bin': Buffer.alloc(3_000_000, 7),
      },
    });
    const seen = await mirrors.checkAccess({ ...project, timeoutMs });
    assert.deepEqual(seen.workflows, [
      { path: '.github/workflows/ci.yml', text: 'on: push' },
      {
        path: '.github/workflows/large.yaml',
        problem: '.github/workflows/large.yaml has more than 128 kB, the limit.',
      },
      { path: '.github/workflows/nul.yml', problem: '.github/workflows/nul.yml is not UTF-8 text.' },
      { path: '.travis.yml', text: 'language: c' },
    ]);
    await repository.commit({
      files: { ...many, '.github/workflows/large.yaml': null, '.github/workflows/nul.yml': null },
    });
    const { workflows } = await mirrors.checkAccess({ ...project, timeoutMs });
    assert.equal(workflows.length, 101);
    assert.equal(workflows.filter((one) => 'text' in one).length, 100);
    const last = workflows.at(-1) ?? assert.fail();
    assert.match('problem' in last ? last.problem : '', /^and 52 files in all are more than are read/);
    const full = Object.fromEntries(
      Array.from({ length: 9 }, (_, at) => [`.woodpecker/${at}.yml`, '"'.repeat(100_000)]),
    );
    await repository.commit({ files: full });
    const cut = (await mirrors.checkAccess({ ...project, timeoutMs })).workflows;
    assert.ok(Buffer.byteLength(JSON.stringify(cut)) < 1_100_000);
    assert.ok(cut.length < 100);
  });
