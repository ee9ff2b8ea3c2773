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
        await form.getByText('Runner: any').focus();
        await page.keyboard.press('Enter');
        await form.getByLabel('Tags').fill('gpu');
        await form.getByRole('button', { name: 'Save' }).click();
        await page.getByText('Cache: 2 paths').waitFor();
        await page.getByText('Runner: with the tags gpu').waitFor();
        await runs.change(suite, { 'cache[]': 'node_modules', 'tags[]': '' });
      }
    });

    test('have steps and services that are added, moved and removed in place', async () => {
      const { page, complaints } = await browser.signInNoting(service.address, runs.user.credentials);
      await page.goto(`${service.address}/ui${runs.path}/settings/suites`);
      const form = page.getByRole('form', { name: 'New suite' });
      const button = (name: string) => form.getByRole('button', { name, exact: true });
      await form.getByLabel('Name', { exact: true }).fill('in place');
      const command = form.getByLabel('Command', { exact: true });
      await command.fill('forgotten');
      await form.getByLabel('In steps').check();
      assert.equal(await command.isVisible(), false);
      const names = form.getByLabel('Step name');
      assert.equal(await names.count(), 1);
      for (const [at, name] of ['test', 'install', 'oops'].entries()) {
        if (at > 0) {
          await button('Add step').press('Enter');
          assert.equal(await page.evaluate('document.activeElement.id'), `create-steps_${at}_name_`);
        }
        await names.nth(at).fill(name);
        await form.getByLabel('Step command').nth(at).fill(`make ${name}`);
      }
      await button('Remove: step 3').press('Enter');
      await button('Move up: step 2').press('Enter');
      assert.equal(await page.evaluate('document.activeElement.ariaLabel'), 'Move down: step 1');
      await form.getByText('Services: none').click();
      await button('Add service').click();
      await form.getByLabel('Service name').fill('db');
      await form.getByLabel('Service image').fill('postgres:18');
      for (const [at, name] of ['GONE', 'POSTGRES_PASSWORD'].entries()) {
        await button('Another variable').click();
        await form.getByLabel('Variable', { exact: true }).nth(at).fill(name);
        await form.getByLabel('Content', { exact: true }).nth(at).fill('hush');
      }
      await button('Remove: variable 1').click();
      await button('Add service').click();
      await form.getByLabel('Service name').nth(1).fill('cache');
      await form.getByLabel('Service image').nth(1).fill('redis:8');
      await button('Another variable').nth(1).click();
      await form.getByLabel('Variable', { exact: true }).nth(1).fill('SIZE');
      await form.getByLabel('Content', { exact: true }).nth(1).fill('1');
      await button('Move up: service 2').click();
      await button('Create suite').click();
      await page.getByRole('heading', { name: 'in place' }).waitFor();
      const suite = (await runs.user.get(`${runs.path}/suites`)).list.find(({ name }) => name === 'in place');
      const { steps, services } = suite as unknown as Record<'steps' | 'services', Record<string, unknown>[]>;
      assert.equal(suite?.command, '');
      assert.deepEqual(
        steps.map((step) => [step.name, step.command]),
        [
          ['install', 'make install'],
          ['test', 'make test'],
        ],
      );
      assert.deepEqual(
        services.map(({ name, image, variables }) => [name, image, variables]),
        [
          ['cache', 'redis:8', [{ name: 'SIZE', content: '1', from: '' }]],
          ['db', 'postgres:18', [{ name: 'POSTGRES_PASSWORD', content: 'hush', from: '' }]],
        ],
      );
      assert.deepEqual(complaints, []);

      const plain = await browser.signIn(service.address, runs.user.credentials, { javaScriptEnabled: false });
      await plain.goto(`${service.address}/ui${runs.path}/settings/suites/${String(suite?.id)}`);
      assert.equal(await plain.getByLabel('Step name').count(), 5, 'three empty rows');
      assert.equal(await plain.getByRole('button', { name: 'Add step' }).count(), 0);
      await plain.getByLabel('All in one').check();
      await plain.getByLabel('Command', { exact: true }).fill('make all');
      await plain.getByRole('button', { name: 'Save' }).click();
      await plain.getByText('Saved.').waitFor();
      const { record } = await runs.user.get(`${runs.path}/suites/${String(suite?.id)}`);
      assert.deepEqual([record.command, record.steps], ['make all', []]);
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
