import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TestBrowser } from '../support/browser.ts';
import { describeWithRunnerOnOne } from '../support/runner.ts';
import { SuiteRuns } from '../support/suite-runs.ts';
import { Tab } from '../support/tab.ts';

describeWithRunnerOnOne('the page of a request whose suites need others', (service, runner, database) => {
  test('draws them, says what each needs, and lets a person approve', async () => {
    const alice = await service.user();
    const tab = new Tab(service);
    await tab.signIn(alice.credentials);
    const runs = await SuiteRuns.begin(alice, runner);
    const compile = await runs.suite({ name: 'compile' });
    await runs.suite({ name: 'lint' });
    const unit = await runs.suite({ name: 'unit', 'needs[]': String(compile.id), 'matrix[]': 'N=1,2' });
    const long = 'ship <b>to everybody</b> in the whole world';
    const ship = await runs.suite({ name: long });
    const at = `/ui${runs.path}/settings/suites/${ship.id}`;
    const form = await tab.get(at);
    assert.match(form.text, /<legend>Needs:/);
    const fields = { do: 'save', name: long, command: 'make', approval: 'true', concurrency_group: 'production' };
    assert.equal((await tab.submit(form, at, { ...fields, 'needs[]': String(unit.id) })).status, 303);
    assert.match((await tab.get(at)).text, /Needs: unit, with approval, group: production/);
    const request = await runs.fetched();
    const path = `/ui${runs.path}/requests/${request.id}`;
    const text = async (): Promise<string> => (await tab.get(path)).text.replaceAll(/\s+/g, ' ');
    assert.match(await text(), /needs: compile<.*needs: unit</);
    assert.match(await text(), /waits for unit/);
    const take = async (): Promise<void> => (await runner.take('run_suite')).exit(0);
    for (let count = 0; count < 4; count += 1) await take();

    const browser = new TestBrowser(database);
    const page = await browser.signIn(service.address, alice.credentials, { viewport: { width: 1280, height: 900 } });
    await page.goto(`${service.address}${path}`);
    const lefts = async (): Promise<Record<string, number>> => {
      const places = (await page.evaluate(`Array.from(document.querySelectorAll('.graph .node'), (node) => [
        node.querySelector('text').textContent,
        Math.round(node.getBoundingClientRect().left),
      ])`)) as [string, number][];
      return Object.fromEntries(places);
    };
    const columns = await lefts();
    const [first = 0, second = 0, third = 0] = [columns.compile, columns.unit, columns['ship <b>to everyb…']];
    assert.equal(columns.lint, first);
    assert.ok(first < second && second < third, JSON.stringify(columns));
    assert.equal(
      await page
        .locator('.graph .edges')
        .getAttribute('d')
        .then((lines) => lines?.split('M').length),
      3,
    );
    assert.deepEqual(await page.locator('.build-name a').allInnerTexts(), [
      'compile',
      'lint',
      'unit (N=1)',
      'unit (N=2)',
      long,
    ]);
    // On a phone the drawing scrolls in its frame, and the page does not.
    await page.setViewportSize({ width: 360, height: 700 });
    assert.ok(Number(await page.evaluate('document.documentElement.scrollWidth')) <= 360);
    await page.getByRole('button', { name: 'Approve' }).click();
    await page.getByText('Approved').waitFor();
    const task = await runner.take('run_suite');
    await page.locator('.build-state', { hasText: 'running' }).waitFor();
    assert.equal(await page.locator('.graph .node.busy').count(), 1, 'the drawing is live');
    await task.exit(0);
    assert.match(
      (await tab.get(`/ui${runs.path}/builds/${(await runs.builds()).at(-1)?.id}/details`)).text,
      new RegExp(`Approved by.*${alice.email}`, 's'),
    );
  });
});
