import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { forgetOldSummaries } from '../../../src/server/outputs/summaries.ts';
import { assertNotFound } from '../../support/expect.ts';
import { ScriptedRunner } from '../../support/runner.ts';
import { runningBuild } from '../../support/running-build.ts';
import { describeService } from '../../support/service.ts';
import { Tab } from '../../support/tab.ts';
import type { User } from '../../support/user.ts';

describeService('the summary of a build', (service) => {
  let runner: ScriptedRunner;
  let alice: User;
  before(async () => {
    runner = await ScriptedRunner.start(service.store);
    alice = await service.user();
  });
  after(() => runner.dispatch.close());

  test('is there as Markdown, on its page as HTML, and for who may see the build', async () => {
    const { task, path } = await runningBuild(alice, runner);
    const empty = await alice.get(`${path}/summary`);
    assert.deepEqual([empty.status, empty.text], [200, '']);
    assert.equal((await alice.get(`${path}/details`)).record.has_summary, false);
    const { claim } = task.order;
    const markdown =
      '# Done <script>x</script>\n\n| é | b |\n|---|---|\n| 1 | 2 |\n\n![gone](https://x.example/p.png)\n';
    const send = (text: string) => runner.dispatch.summary(runner.self, { claim, markdown: text });
    assert.deepEqual(await send('first'), { taken: true });
    assert.deepEqual(await send(markdown), { taken: true }, 'sent again, the last one counts');
    await task.exit(0);
    assert.deepEqual(await send('late'), { gone: true });

    const answer = await alice.get(`${path}/summary`);
    assert.equal(answer.text, markdown);
    assert.equal(answer.headers['content-type'], 'text/markdown; charset=utf-8');
    assert.equal((await alice.get(`${path}/details`)).record.has_summary, true);
    const tab = new Tab(service);
    await tab.signIn(alice.credentials);
    const { text } = await tab.get(`/ui${path}`);
    const [shown = ''] = /<section id="summary"[^]*?<\/section>/.exec(text) ?? [];
    assert.match(shown, /<h3>Done <\/h3>/);
    assert.match(shown, /<td>1<\/td>/);
    assert.match(shown, /<span>gone<\/span>/);
    assert.doesNotMatch(shown, /script|x\.example/);
    const link = /href="(\/ui\/data[^"]*\/summary)"/.exec(shown)?.[1] ?? '';
    assert.equal((await tab.get(link)).text, markdown);

    const mallory = await service.user();
    for (const what of ['summary', 'summary/view']) assertNotFound(await mallory.get(`${path}/${what}`));
    const { db } = service.store;
    await forgetOldSummaries(db, 1, Date.now() + 3 * 24 * 60 * 60 * 1000);
    assert.equal((await alice.get(`${path}/summary`)).text, '');
  });

  test('of a build that is cancelled or lost is none, and one that cannot be shown stays as text', async () => {
    const one = await runningBuild(alice, runner);
    const send = (claim: string, markdown: string) => runner.dispatch.summary(runner.self, { claim, markdown });
    await send(one.task.order.claim, 'a');
    await alice.post(`${one.path}/cancel`);
    await one.task.finish({ kind: 'cancelled' });
    assert.equal((await alice.get(`${one.path}/summary`)).text, '');

    const other = await runningBuild(alice, runner);
    const hostile = `|${'a|'.repeat(5000)}\n|${'-|'.repeat(5000)}\n${'|\n'.repeat(400_000)}`;
    await send(other.task.order.claim, hostile);
    await other.task.exit(0);
    assert.equal((await alice.get(`${other.path}/summary/view`)).record.html, null);
    const tab = new Tab(service);
    await tab.signIn(alice.credentials);
    assert.match((await tab.get(`/ui${other.path}`)).text, /takes too long to be shown here/);
    assert.equal((await alice.get(`${other.path}/summary`)).text, hostile);
  });
});
