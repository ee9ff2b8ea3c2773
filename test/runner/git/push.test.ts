import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { chmod, open, readdir, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import type { PushRequest } from '../../../src/runner/git/push.ts';
import { createRepository } from '../../support/repository.ts';
import { waitingHook } from '../../support/waiting-hook.ts';
import { workplace } from './workplace.ts';

async function twoRepositories(t: TestContext) {
  const place = await workplace(t);
  const target = await createRepository(join(place.host.folder, 'live.git'));
  const remoteUrl = place.host.url('live.git');
  const push = (sha: string, more: Partial<PushRequest> = {}) =>
    place.mirrors.push({ ...place.project, sha, localBranch: 'main', remoteUrl, remoteBranch: 'production', ...more });
  return { ...place, target, push };
}

test('a commit is pushed to the branch, and again without harm', async (t) => {
  const { repository, target, push, log, host } = await twoRepositories(t);
  const first = await repository.commit();
  const second = await repository.commit();
  assert.deepEqual(await push(first), { pushed: true, alreadyThere: false });
  assert.equal(await target.sha('production'), first);
  assert.deepEqual(await push(first), { pushed: true, alreadyThere: true });
  assert.deepEqual(await push(second), { pushed: true, alreadyThere: false });
  assert.equal(await target.sha('production'), second);
  assert.equal(await target.git(['for-each-ref', '--format=%(refname)']), 'refs/heads/production');
  assert.match(log(), /Pushing [\s\S]*is now at/);
  assert.equal(host.logins(), 1);
});

test('only what lies on the local branch goes out, as that branch is now', async (t) => {
  const { repository, target, push, fetch } = await twoRepositories(t);
  const first = await repository.commit();
  const side = await repository.commit({ on: 'side', after: first });
  const lost = await repository.commit();
  await fetch('main');
  await repository.commit({ after: first });
  for (const sha of [side, lost, 'e'.repeat(40)]) {
    const outcome = await push(sha);
    assert.ok(!outcome.pushed);
    assert.equal(outcome.reason, 'not_on_branch');
  }
  assert.deepEqual(await push(side, { localBranch: 'side' }), { pushed: true, alreadyThere: false });
  const missing = await push(first, { localBranch: 'nowhere' });
  assert.ok(!missing.pushed);
  assert.equal(missing.reason, 'ref_not_found');
  assert.equal(await target.sha('production'), side);
});

test('nothing is overwritten by force', async (t) => {
  const { repository, target, push, log } = await twoRepositories(t);
  const first = await repository.commit();
  const second = await repository.commit();
  await push(second);
  for (const theirs of [second, await target.commit({ on: 'production' })]) {
    await target.overwrite('production', theirs);
    const outcome = await push(first);
    assert.ok(!outcome.pushed);
    assert.equal(outcome.reason, 'not_fast_forward');
    assert.equal(await target.sha('production'), theirs);
    assert.match(log(), /not a fast-forward/);
  }
});

test('a branch of the target that is called by the full name of another one is not taken for it', async (t) => {
  const { repository, target, push } = await twoRepositories(t);
  const first = await repository.commit();
  const second = await repository.commit();
  await push(first);
  await target.branch('refs/heads/production', first);
  const refused = async (): Promise<void> => {
    const outcome = await push(second);
    assert.ok(!outcome.pushed);
    assert.equal(outcome.reason, 'refused_by_remote');
    assert.match(
      outcome.message,
      /has another branch whose name ends in “refs\/heads\/production”.*Delete that branch/,
    );
  };
  await refused();
  assert.equal(await target.sha('refs/heads/production'), first);
  await target.git(['update-ref', '-d', 'refs/heads/production']);
  await refused();
  await target.git(['update-ref', '-d', 'refs/heads/refs/heads/production']);
  assert.deepEqual(await push(second), { pushed: true, alreadyThere: false });
});

test('a hook that refuses is heard in its own words', async (t) => {
  const { repository, target, push, log } = await twoRepositories(t);
  const sha = await repository.commit();
  const hook = join(target.folder, 'hooks', 'pre-receive');
  await writeFile(hook, '#!/bin/sh\necho "no deploys on Fridays" >&2\nexit 1\n', { mode: 0o755 });
  const outcome = await push(sha);
  assert.ok(!outcome.pushed);
  assert.equal(outcome.reason, 'refused_by_remote');
  assert.match(outcome.message, /pre-receive hook declined/);
  assert.match(log(), /remote: no deploys on Fridays/);
});

test('a target that cannot be reached is an answer too', async (t) => {
  const { host, repository, push, key, log } = await twoRepositories(t);
  const sha = await repository.commit();
  const reasonOf = async (more: Partial<PushRequest>) => {
    const outcome = await push(sha, more);
    return outcome.pushed ? undefined : outcome.reason;
  };
  assert.equal(await reasonOf({ remoteUrl: host.url('nothing.git') }), 'repository_not_found');
  assert.equal(await reasonOf({ remoteUrl: 'git@no-such-host.invalid:x.git' }), 'host_unreachable');
  assert.equal(await reasonOf({ remoteUrl: '-oProxyCommand=id:x' }), 'invalid_url');
  assert.equal(await reasonOf({ remoteBranch: '--force' }), 'invalid_ref');
  assert.equal(await reasonOf({ remoteBranch: '+x:y' }), 'invalid_ref');
  await host.revoke(key.publicKey);
  assert.equal(await reasonOf({}), 'key_refused');
  const said = log();
  assert.match(said, /fingerprint is SHA256:/);
  assert.ok(!said.includes(key.publicKey));
});

test('a push that takes long does not hold up fetches', async (t) => {
  const { repository, target, push, fetch } = await twoRepositories(t);
  const first = await repository.commit();
  const hook = await waitingHook(target);
  const pushing = push(first);
  await hook.begins(1);
  const second = await repository.commit();
  assert.equal((await fetch('main')).sha, second);
  await hook.letGo();
  assert.deepEqual(await pushing, { pushed: true, alreadyThere: false });
});

test('two that push the same commit at once have both pushed it', async (t) => {
  const { repository, target, push, openMirrors, project, host } = await twoRepositories(t);
  const sha = await repository.commit();
  const hook = await waitingHook(target);
  const first = push(sha);
  await hook.begins(1);
  // What a dead runner had sent is still before the hook when the next one pushes.
  const other = await openMirrors();
  const where = { localBranch: 'main', remoteUrl: host.url('live.git'), remoteBranch: 'production' };
  const second = other.push({ ...project, ...where, sha });
  await hook.begins(2);
  await hook.letGo();
  for (const outcome of await Promise.all([first, second])) assert.equal(outcome.pushed, true);
  assert.equal(await target.sha('production'), sha);
});

test('a mirror that turns out to be damaged in the middle of a push is repaired', async (t) => {
  const { repository, dir, target, push, fetch } = await twoRepositories(t);
  const sha = await repository.commit({ files: { large: randomBytes(200_000) } });
  await fetch('main');
  const [mirror = ''] = await readdir(join(dir, 'mirrors', '1'));
  const packs = join(dir, 'mirrors', '1', mirror, 'repository.git', 'objects', 'pack');
  const pack = join(packs, (await readdir(packs)).find((name) => name.endsWith('.pack')) ?? '');
  await chmod(pack, 0o644);
  const { size } = await stat(pack);
  const file = await open(pack, 'r+');
  await file.write(Buffer.alloc(1000, 7), 0, 1000, Math.floor(size / 2));
  await file.close();
  assert.deepEqual(await push(sha), { pushed: true, alreadyThere: false });
  assert.equal(await target.sha('production'), sha);
});
