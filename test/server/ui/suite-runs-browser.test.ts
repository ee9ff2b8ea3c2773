import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { assertAccessible } from '../../support/accessibility.ts';
import { TestBrowser } from '../../support/browser.ts';
import { onOneDatabase } from '../../support/databases.ts';
import { ScriptedRunner } from '../../support/runner.ts';
import { Service } from '../../support/service.ts';
import { SuiteRuns } from '../../support/suite-runs.ts';

describe('suites and their builds in a real browser', () => {
  onOneDatabase((database) => {
    // What a browser does depends on no database.
    if (database.kind !== 'sqlite') return;
    const service = new Service(database);
    const browser = new TestBrowser(database);
    let runs: SuiteRuns;
    let runner: ScriptedRunner;
    before(async () => {
      await service.start();
      runner = await ScriptedRunner.start(service.store);
      database.afterwards(() => runner.dispatch.close());
      runs = await SuiteRuns.begin(await service.user(), runner);
    });

    test('have a form whose groups open with a click and with the keyboard, without scripts too', async () => {
      const suite = await runs.suite({ name: 'folded', 'cache[]': 'node_modules' });
      const path = `${runs.path}/suites/${suite.id}`;
      for (const javaScriptEnabled of [true, false]) {
        const page = await browser.signIn(service.address, runs.user.credentials, { javaScriptEnabled });
        await page.goto(`${service.address}/ui${path.replace('/suites/', '/settings/suites/')}`);
        const form = page.getByRole('form', { name: 'Suite' });
        assert.equal(await form.getByLabel('Cache').isVisible(), false);
        await form.getByText('Cache: 1 path').click();
        await form.getByLabel('Cache').fill(`node_modules\n~/.${javaScriptEnabled ? 'npm' : 'cache'}`);
        await form.getByText('Image: ').focus();
        await page.keyboard.press('Enter');
        await form.getByLabel('Image', { exact: true }).fill('node:22');
        await form.getByRole('button', { name: 'Save' }).click();
        await page.getByText('Cache: 2 paths').waitFor();
        await page.getByText('Image: node:22').waitFor();
        await runs.change(suite, { 'cache[]': 'node_modules', image: '' });
      }
    });

    test('are chosen for a build, and shown with their variants, light, dark and on a phone', async () => {
      const suite = await runs.suite({ name: 'unit', 'matrix[]': 'NODE=20,22\nDB=sqlite,postgres', retries: '1' });
      await runs.suite({ name: 'lint', allow_failure: 'true' });
      await runs.suite({ name: 'docs' });
      const at = `${service.address}/ui${runs.path}`;
      const page = await browser.signIn(service.address, runs.user.credentials);
      await page.goto(at);
      await page.getByLabel('Branch, tag or commit').fill('main');
      await page.getByText('Some suites only').click();
      await page.getByLabel('unit').check();
      await page.getByLabel('lint').check();
      await page.getByRole('button', { name: 'Run build' }).click();
      await page.waitForURL(/requests/);
      await (await runner.take('fetch_commit')).fetched();
      for (const [variant, task] of await runs.take(5)) {
        await task.writeLog(`it is ${variant || 'lint'}\n`);
        await task.exit(variant === 'NODE=20 DB=sqlite' || variant === '' ? 1 : 0);
      }
      await (await runner.take('run_suite')).exit(0);
      await runner.assertIdle();
      await page.getByText('4 passed', { exact: true }).waitFor();
      assert.equal(await page.locator('.builds').getByText('failed, allowed').count(), 1);
      const [commit] = (await runs.user.get(`${runs.path}/commits`)).list;
      const places = [page.url(), at, `${at}/commits/${commit?.id}`, `${at}/settings/suites/${suite.id}`];
      await assertAccessible((options) => browser.signIn(service.address, runs.user.credentials, options), places);
    });
  });
});
