import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { assertAccessible } from '../../support/accessibility.ts';
import { TestBrowser } from '../../support/browser.ts';
import type { Record_ } from '../../support/client.ts';
import { addCommit } from '../../support/rows.ts';
import { ScriptedRunner } from '../../support/runner.ts';
import { runningBuild } from '../../support/running-build.ts';
import { onOneDatabase } from '../../support/databases.ts';
import { Service } from '../../support/service.ts';
import { Tab } from '../../support/tab.ts';
import type { User } from '../../support/user.ts';

const hostile = '"><img src=x onerror=alert(1)>';

describe('the search', () => {
  onOneDatabase((database) => {
    // What is found on each database, test/server/resources/search.test.ts asks.
    if (database.kind !== 'sqlite') return;
    const service = new Service(database);
    const browser = new TestBrowser(database);
    let alice: User;
    let project: Record_;
    let runner: ScriptedRunner;
    before(async () => {
      await service.start();
      alice = await service.user();
      project = await alice.createProject({ name: 'waterworks' });
      await alice.createSuite(project, { name: 'water level' });
      await addCommit(service.store, project, { message: `Let water in ${hostile}` });
      runner = await ScriptedRunner.start(service.store);
    });
    after(() => runner.dispatch.close());
    const opened = (page: Page) => page.getByRole('dialog', { name: 'Search' });

    test('is a field in the header of every page, which leads to the results without scripts', async () => {
      const page = await browser.signIn(service.address, alice.credentials, { javaScriptEnabled: false });
      for (const path of ['/ui/', `/ui/projects/${project.id}`, '/ui/account']) {
        await page.goto(`${service.address}${path}`);
        await page.getByLabel('Search', { exact: true }).fill('water');
        await page.getByLabel('Search', { exact: true }).press('Enter');
        await page.waitForURL('**/ui/search?q=water');
      }
      assert.equal(await page.getByLabel('Search', { exact: true }).inputValue(), 'water');
      assert.deepEqual(await page.locator('#found h2').allTextContents(), ['Projects', 'Suites', 'Commits']);
      await page.getByRole('link', { name: 'water level' }).click();
      await page.getByRole('heading', { name: 'water level' }).waitFor();
      await page.goto(`${service.address}/ui/search?q=nowhere`);
      await page.getByText('Nothing found').waitFor();
    });

    test('shows a visitor nothing of others, and what strangers wrote as text [promise: account-walls]', async () => {
      const tab = new Tab(service);
      await tab.signIn(alice.credentials);
      const own = await tab.get('/ui/search?q=water');
      assert.ok(own.text.includes('waterworks') && own.text.includes('&lt;img src=x') && !own.text.includes('<img'));
      assert.ok(!(await tab.get(`/ui/search?q=${encodeURIComponent(hostile)}`)).text.includes('<img'));
      for (const odd of ['x'.repeat(300), 'a\nb\0c', '💧'.repeat(150)]) {
        const { status, text } = await tab.get(`/ui/search?q=${encodeURIComponent(odd)}`);
        assert.deepEqual([status, text.includes('Nothing found')], [200, true], odd);
      }
      const stranger = new Tab(service);
      await stranger.signIn((await service.user()).credentials);
      const { status, text } = await stranger.get('/ui/search?q=water');
      assert.equal(status, 200);
      assert.doesNotMatch(text, /waterworks|water level|Let water in/);
      const nobody = await new Tab(service).get('/ui/search?q=water');
      assert.deepEqual([nobody.status, String(nobody.headers.location).startsWith('/ui/sign-in?')], [303, true]);
    });

    test('opens with / and Ctrl-K, finds while somebody types, and goes by the keyboard alone', async () => {
      const { page, complaints } = await browser.signInNoting(service.address, alice.credentials);
      await page.goto(`${service.address}/ui/projects/${project.id}`);
      await page.keyboard.press('/');
      await opened(page).waitFor();
      await page.keyboard.type('water');
      await opened(page).getByRole('link', { name: 'waterworks' }).waitFor();
      await opened(page).getByText('3 found').waitFor();
      await page.keyboard.press('ArrowDown');
      await page.keyboard.press('ArrowDown');
      assert.equal(await page.evaluate('document.activeElement.textContent'), 'water level');
      await page.keyboard.press('ArrowUp');
      await page.keyboard.press('ArrowUp');
      assert.equal(await page.evaluate('document.activeElement.value'), 'water');
      await page.keyboard.press('Escape');
      assert.equal(await opened(page).count(), 0);
      await page.keyboard.press('Control+k');
      await opened(page).waitFor();
      await page.keyboard.type('water lev');
      await opened(page).getByText('1 found').waitFor();
      await page.keyboard.press('Enter');
      await page.waitForURL('**/settings/suites/*');
      // In a field, / is a letter.
      await page.getByLabel('Command').first().press('/');
      assert.equal(await opened(page).count(), 0);
      assert.deepEqual(complaints, []);
    });

    test('opens as soon as somebody types in the header, and finds tests and settings', async () => {
      const build = await runningBuild(alice, runner);
      const report = { class: 'Gate', suite: '', file: '', durationMs: 1, message: '', state: 'failed' } as const;
      const tests = [`opens ${hostile}`, 'closes the gate'].map((name) => ({ ...report, name }));
      await runner.dispatch.tests(runner.self, { claim: build.task.order.claim, start: 0, tests, isLast: true });
      await build.task.exit(1);
      const { page, complaints } = await browser.signInNoting(service.address, alice.credentials);
      const field = page.locator('#search').getByLabel('Search');
      assert.equal(await field.getAttribute('placeholder'), 'Search (Ctrl-K)');
      await field.focus();
      await page.keyboard.type('closes');
      await opened(page).getByText('1 found').waitFor();
      assert.deepEqual(await opened(page).getByLabel('Search').inputValue(), 'closes');
      assert.equal(await field.inputValue(), '');
      await opened(page).getByRole('link', { name: 'closes the gate' }).click();
      await page.waitForURL(`**${build.path}/tests?filter=closes+the+gate`);
      await page.getByText('1 failed').first().waitFor();

      await page.keyboard.press('Control+k');
      await page.keyboard.type('water sched');
      await opened(page).getByRole('link', { name: 'Schedules' }).click();
      await page.getByRole('heading', { name: 'Schedules' }).waitFor();
      assert.match(page.url(), new RegExp(`/projects/${project.id}/settings/triggers/schedules$`));
      assert.deepEqual(complaints, []);

      const tab = new Tab(service);
      await tab.signIn(alice.credentials);
      const found = async (text: string): Promise<string[]> => {
        const { text: shown } = await tab.get(`/ui/search?q=${encodeURIComponent(text)}`);
        assert.ok(!shown.includes('<img'));
        return Array.from(shown.matchAll(/<h2>([^<]*)</g), ([, title = '']) => title);
      };
      assert.deepEqual(await found('opens'), ['Tests']);
      assert.deepEqual(await found('op'), [], 'two letters are in too many tests');
      assert.deepEqual(await found('webhooks'), ['Settings']);
      assert.deepEqual(await found('webhooks of nobody'), []);
      const stranger = new Tab(service);
      await stranger.signIn((await service.user()).credentials);
      for (const text of ['closes', 'schedules'])
        assert.match((await stranger.get(`/ui/search?q=${text}`)).text, /Nothing found/, text);
      const { list } = await alice.get('/search?q=closes');
      const one = list.map(({ kind, name, id, build_state: state }) => [kind, name, id, state]);
      assert.deepEqual(one, [['test', 'closes the gate', build.id, 'failed']]);
    });

    test('leaves / to a log, where it searches the log; Ctrl-K opens it there too', async () => {
      const page = await browser.signIn(service.address, alice.credentials);
      const build = await runningBuild(alice, runner);
      await build.task.writeLog('one\ntwo\n');
      await page.goto(`${service.address}/ui${build.path}`);
      await page.locator('.log-loaded').waitFor();
      await page.keyboard.press('/');
      assert.equal(await page.evaluate('document.activeElement.id'), 'log-search');
      assert.equal(await opened(page).count(), 0);
      await page.keyboard.press('Control+k');
      await opened(page).waitFor();
      assert.equal(await page.evaluate('document.activeElement.name'), 'q');
    });

    test('breaks no rule of WCAG 2.2 AA, on its page and in its dialog', async () => {
      const open = (options: object): Promise<Page> => browser.signIn(service.address, alice.credentials, options);
      const address = `${service.address}/ui/search?q=water`;
      await assertAccessible(open, [address, `${service.address}/ui/search`]);
      await assertAccessible(
        async (options) => {
          const page = await open(options);
          const press = `dispatchEvent(new KeyboardEvent('keydown', { key: 'k', ctrlKey: true }))`;
          await page.addInitScript(`addEventListener('load', () => document.${press})`);
          return page;
        },
        [address],
      );
    });
  });
});
