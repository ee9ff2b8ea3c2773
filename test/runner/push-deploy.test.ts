import assert from 'node:assert/strict';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import type { Outcome } from '../../src/shared/protocol/index.ts';
import { pushDeploy } from '../../src/runner/push-deploy.ts';
import type { RunnerDeps } from '../../src/runner/job-runner.ts';
import { spanTimes } from '../../src/runner/span-times.ts';
import { createRepository } from '../support/repository.ts';
import { waitingHook } from '../support/waiting-hook.ts';
import { workplace } from './git/workplace.ts';

/** A deploy to a repository whose hook waits for a word that may never come. */
async function slowDeploy(t: TestContext) {
  const { host, repository, project, mirrors, log } = await workplace(t);
  const target = await createRepository(join(host.folder, 'live.git'));
  const sha = await repository.commit();
  const hook = await waitingHook(target);
  const { writeLog, signal: _, ...source } = project;
  const order = { source, sha, localBranch: 'main', remoteUrl: host.url('live.git'), remoteBranch: 'production' };
  const start = (timeoutSeconds: number, signal: AbortSignal): Promise<Outcome> => {
    const work = { kind: 'push_deploy' as const, ...order, timeoutSeconds };
    return pushDeploy({ mirrors } as unknown as RunnerDeps, work, {
      id: 'x',
      writeLog,
      signal,
      spans: spanTimes(),
    });
  };
  const branches = (): Promise<string> => target.git(['for-each-ref', 'refs/heads']);
  return { start, hook, log, branches };
}

test('a deploy that takes too long is ended, and the log says so', async (t) => {
  const { start, log, branches } = await slowDeploy(t);
  assert.deepEqual(await start(1, new AbortController().signal), { kind: 'refused' });
  assert.match(log(), /took longer than 1 s[^\n]*check the remote branch/);
  assert.equal(await branches(), '');
});

test('a deploy that is called off is broken off, and the log says so', async (t) => {
  const { start, hook, log, branches } = await slowDeploy(t);
  const calledOff = new AbortController();
  const deploying = start(600, calledOff.signal);
  await hook.begins(1);
  calledOff.abort(new Error('called off'));
  await assert.rejects(deploying, { message: 'called off' });
  assert.match(log(), /\nThe deploy was cancelled\.[^\n]*check the remote branch/);
  assert.equal(await branches(), '');
});
