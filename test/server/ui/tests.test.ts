import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import type { SuiteOrder, TestReport } from '../../../src/shared/protocol/index.ts';
import { assertAccessible } from '../../support/accessibility.ts';
import { TestBrowser } from '../../support/browser.ts';
import { describeWithRunnerOnOne, type Task } from '../../support/runner.ts';
import { runningBuild, type RunningBuild } from '../../support/running-build.ts';
import { Tab } from '../../support/tab.ts';
import type { User } from '../../support/user.ts';

const markup = `"'><img src=x onerror=alert(1)><script>alert(2)</script>&\u202E`;
const plain: TestReport = {
  name: markup,
  class: markup,
  suite: markup,
  file: markup,
  state: 'failed',
  durationMs: 1234,
  message: `${markup}\n${'a long line '.repeat(80)}\n${markup}`,
};

describeWithRunnerOnOne('the pages about tests', (service, runner, database) => {
  let alice: User;
  let tab: Tab;
  let build: RunningBuild;
  let pages: string[];
  let again: string;
  const send = (task: Task<SuiteOrder>, start: number, tests: TestReport[], isLast: boolean) =>
    runner.dispatch.tests(runner.self, { claim: task.order.claim, start, tests, isLast });

  before(async () => {
    alice = await service.user();
    tab = new Tab(service);
    await tab.signIn(alice.credentials);
    build = await runningBuild(alice, runner);
    const passed = Array.from({ length: 120 }, (_, at): TestReport => ({
      ...plain,
      name: `number ${at}`,
      state: 'passed',
      durationMs: at,
      message: '',
    }));
    await send(build.task, 0, [plain, { ...plain, name: 'x'.repeat(1000), message: 'short' }, ...passed], false);
    await send(build.task, 122, [{ ...plain, state: 'skipped', message: 'not today' }], true);
    await build.task.exit(1);
    again = (await alice.post(`${build.path}/restart`)).record.id_str;
    const second = await runner.take('run_suite');
    await send(second, 0, [{ ...plain, state: 'passed', message: '' }], true);
    await second.exit(0);
    pages = [
      `/ui${build.path}`,
      `/ui${build.path}/tests?state=passed`,
      `/ui/projects/${build.project.id}/tests`,
      `/ui${build.path}/tests`,
    ];
  });

  test('show what failed first, with its messages, and the others by their state', async () => {
    const { text } = await tab.get(pages[3] ?? '');
    const section = /<section id="tests"[^]*?<\/section>/.exec(text)?.[0] ?? assert.fail(text);
    const kinds = Array.from(section.matchAll(/<summary>([^<]+)<\/summary>/g), ([, words]) => words);
    assert.deepEqual(kinds, ['2 failed', '1 skipped', '120 passed']);
    assert.match(section, /a long line a long line/);
    assert.match(section, /1\.23 s/);
    const skipped = (await tab.get(`/ui${build.path}/tests?state=skipped`)).text;
    assert.match(skipped, /not today/);
    assert.doesNotMatch(skipped, /a long line/);
  });

  test('go through thousands of tests by pages', async () => {
    const shown: string[] = [];
    let path: string | undefined = `/ui${build.path}/tests?state=passed`;
    for (let pagesSeen = 0; path !== undefined; pagesSeen += 1) {
      assert.ok(pagesSeen < 3);
      const { text } = await tab.get(path);
      shown.push(...Array.from(text.matchAll(/<strong>(number \d+)</g), ([, name = '']) => name));
      path = /href="([^"]+)" rel="next"/.exec(text)?.[1]?.replaceAll('&amp;', '&');
    }
    assert.deepEqual(
      shown,
      Array.from({ length: 120 }, (_, at) => `number ${at}`),
    );
    assert.equal((await tab.get(`/ui${build.path}/tests?state=nonsense&after=%3Cscript%3E&filter=%00`)).status, 200);
  });

  test('tell what is flaky: how often, since which commit, in which build', async () => {
    const { text } = await tab.get(pages[2] ?? '');
    assert.match(text, /Failed 1 of 2 times on 1 commit/);
    assert.ok(text.includes(`/ui${build.path}"`), 'the build that failed');
    assert.ok(!text.includes(`builds/${again}"`));
    assert.match(text, /<a href="\/ui\/projects\/\d+\/commits\/\d+">commit <code>c0ffee0000<\/code>/);
    assert.match(text, /Slow tests[^]*1\.23 s/);
  });

  test('take names and messages for text [promise: build-reports]', async () => {
    for (const path of pages) {
      const { status, text } = await tab.get(path);
      assert.equal(status, 200);
      assert.ok(text.includes('&lt;img src=x onerror=alert(1)&gt;&lt;script&gt;'), path);
      assert.doesNotMatch(text, /<img src=x|<script>|\u202E/);
    }
  });

  test('are not there for another account [promise: account-walls]', async () => {
    const stranger = new Tab(service);
    await stranger.signIn((await service.user()).credentials);
    for (const path of pages) assert.equal((await stranger.get(path)).status, 404);
  });

  if (database.kind === 'sqlite') {
    const browser = new TestBrowser(database);
    test('have nothing that WCAG 2.2 AA forbids, nor are wider than a phone', async () => {
      const addresses = [...pages, `/ui${build.path}/tests?state=skipped`].map((path) => `${service.address}${path}`);
      await assertAccessible((options) => browser.signIn(service.address, alice.credentials, options), addresses);
    });
  }
});
