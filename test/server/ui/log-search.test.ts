import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { ScriptedRunner } from '../../support/runner.ts';
import { runningBuild } from '../../support/running-build.ts';
import { describeServiceOnOne } from '../../support/service.ts';
import { Tab } from '../../support/tab.ts';
import type { User } from '../../support/user.ts';

describeServiceOnOne('the search in the logs of a project', (service) => {
  let runner: ScriptedRunner;
  let alice: User;
  before(async () => {
    runner = await ScriptedRunner.start(service.store);
    alice = await service.user();
  });
  after(() => runner.dispatch.close());

  test('begins on its page, without scripts, and leads to the line; what a log says is text', async () => {
    const { project, id, task } = await runningBuild(alice, runner, { name: 'unit' });
    await task.writeLog('fine\n<img src=x onerror=alert(1)> \u202etxet \x1b[31mrefused\x1b[0m\n');
    await task.exit(1);
    const tab = new Tab(service);
    await tab.signIn(alice.credentials);
    const path = `/ui/projects/${project.id}`;
    const home = await tab.get(path);
    assert.match(home.text, new RegExp(`action="${path}/logs"[^]*?Search logs`));
    assert.match((await tab.get(`${path}/logs?expression=REFUSED`)).text, /Nothing found/);
    const { text } = await tab.get(`${path}/logs?expression=${encodeURIComponent('on.* refused')}`);
    assert.match(text, /1 build\s+with a line that matches/);
    assert.ok(text.includes(`${path}/builds/${id}?from=1#L2"`), text);
    assert.ok(text.includes('&lt;img src=x onerror=alert(1)&gt;') && !text.includes('<img src=x'));
    // oxlint-disable-next-line no-control-regex -- neither reaches the page
    assert.ok(!/[\u202e\u001b]/.test(text));
    for (const wrong of ['expression=%28', 'expression=fine&suite_id=none'])
      assert.match((await tab.get(`${path}/logs?${wrong}`)).text, /This cannot be searched for/);
  });
});
