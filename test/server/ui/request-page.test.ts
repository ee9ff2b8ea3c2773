import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import type { FinishReport } from '../../../src/shared/protocol/index.ts';
import { describeWithRunnerOnOne } from '../../support/runner.ts';
import { runningBuild } from '../../support/running-build.ts';
import { Tab } from '../../support/tab.ts';
import type { User } from '../../support/user.ts';

describeWithRunnerOnOne('the page of a request', (service, runner) => {
  let alice: User;
  let tab: Tab;
  before(async () => {
    alice = await service.user();
    tab = new Tab(service);
    await tab.signIn(alice.credentials);
  });

  /** What the page says of a build with this log, in which the runner told where its command's output is. */
  const saidOf = async (log: string, output?: FinishReport['output']): Promise<string> => {
    const { project, request, task } = await runningBuild(alice, runner);
    await task.writeLog(log);
    const { claim } = task.order;
    const outcome = { kind: 'exited', status: 0 } as const;
    const report = { claim, outcome, logSize: Buffer.byteLength(log), ...(output && { output }) };
    assert.deepEqual(await runner.dispatch.finish(runner.self, report), { taken: true });
    const { text } = await tab.get(`/ui/projects/${project.id}/requests/${request.id}`);
    assert.match(text, /<summary class="button">Fetch log<\/summary>/);
    const [, said = ''] = /<span class="build-said">(.*?)<\/span>/s.exec(text) ?? assert.fail(text);
    return said.replaceAll(/<[^>]+>/g, '').trim();
  };

  test('shows the last line that the command said, and not what the runner wrote around it', async () => {
    const log = 'Restored the cache.\nall is well\n\nSaved the cache.\n';
    assert.equal(await saidOf(log, { from: 20, to: 33 }), 'all is well');
    assert.equal(await saidOf(log, { from: 20, to: 20 }), '', 'it said nothing');
    assert.equal(await saidOf(log), 'Saved the cache.', 'of a runner that does not tell, the last line of all');
    const long = `${'x'.repeat(5000)}\nthe end`;
    assert.equal(await saidOf(`${long}\nSaved the cache.\n`, { from: 0, to: long.length }), 'the end');
  });

  test('shows nothing of what a runner tells wrongly', async () => {
    for (const output of [
      { from: 9, to: 3 },
      { from: 2 ** 52, to: 2 ** 52 },
      { from: 0, to: 2 ** 52 },
    ])
      assert.ok(['', 'hello'].includes(await saidOf('hello\n', output)), JSON.stringify(output));
  });
});
