import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assertAccessible } from '../../support/accessibility.ts';
import { TestBrowser } from '../../support/browser.ts';
import { describeWithRunnerOnOne } from '../../support/runner.ts';
import { SuiteRuns } from '../../support/suite-runs.ts';
import { Tab } from '../../support/tab.ts';

describeWithRunnerOnOne('the page of a request whose suites need others', (service, runner, database) => {
  test('draws them, says what each needs, and lets a person approve', async () => {
    const alice = await service.user();
    const tab = new Tab(service);
    await tab.signIn(alice.credentials);
    const runs = await SuiteRuns.begin(alice, runner);
    const compile = await runs.suite({ name: 'compile' });
    const lint = await runs.suite({ name: 'lint' });
    const unit = await runs.suite({ name: 'unit', 'needs[]': String(compile.id), 'matrix[]': 'N=1,2' });
    const long = 'ship <b>to everybody</b> in the whole world';
    const ship = await runs.suite({ name: long });
    const at = `/ui${runs.path}/settings/suites/${ship.id}`;
    const form = await tab.get(at);
    assert.match(form.text, /<legend>Needs</);
    const fields = { do: 'save', name: long, command: 'make', approval: 'true', concurrency_group: 'production' };
    assert.equal((await tab.submit(form, at, { ...fields, 'needs[]': String(unit.id) })).status, 303);
    assert.match((await tab.get(at)).text, /Start: by itself, with approval, group: production/);
    const last = await alice.post(`${runs.path}/suites`, [
      ['name', 'report'],
      ['command', 'make'],
      ['needs[]', String(lint.id)],
      ['needs[]', String(ship.id)],
    ]);
    assert.equal(last.status, 201);
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
      5,
    );
    // The line from lint to report is long: it goes past the suites between them, and not behind one.
    const behind = await page.evaluate(`(() => {
      const edges = document.querySelector('.graph .edges');
      const boxes = Array.from(document.querySelectorAll('.graph .node rect'), (box) => box.getBoundingClientRect());
      const origin = edges.ownerSVGElement.getBoundingClientRect();
      let inside = 0;
      for (let at = 0; at < edges.getTotalLength(); at += 2) {
        const point = edges.getPointAtLength(at);
        const [x, y] = [origin.left + 1 + point.x, origin.top + 1 + point.y];
        if (boxes.some((box) => x > box.left + 2 && x < box.right - 2 && y > box.top && y < box.bottom)) inside += 1;
      }
      return inside;
    })()`);
    assert.equal(behind, 0);
    assert.deepEqual(await page.locator('.build-name a').allInnerTexts(), [
      'compile',
      'lint',
      'unit (N=1)',
      'unit (N=2)',
      long,
      'report',
    ]);
    // On a phone the drawing scrolls in its frame, and the page does not.
    await page.setViewportSize({ width: 360, height: 700 });
    assert.ok(Number(await page.evaluate('document.documentElement.scrollWidth')) <= 360);
    await page.getByRole('button', { name: 'Approve' }).click();
    await page.getByText('Approved').waitFor();
    const task = await runner.take('run_suite');
    await page.locator('.build-state', { hasText: 'running' }).waitFor();
    assert.equal(await page.locator('.graph .node.busy').count(), 1, 'the drawing is live');
    await task.exit(1);
    const [shipped, skipped] = (await runs.builds()).slice(-2);
    assert.match(
      (await tab.get(`/ui${runs.path}/builds/${shipped?.id}/details`)).text,
      new RegExp(`Approved by.*${alice.email}`, 's'),
    );
    // What was skipped says why, in the list and on its own page, which leads to what did not pass.
    assert.match(await text(), /skipped<.*It did not run: a suite that it needs did not pass\./);
    const own = `/ui${runs.path}/builds/${skipped?.id}`;
    const why = (await tab.get(own)).text.replaceAll(/\s+/g, ' ');
    assert.match(
      why,
      new RegExp(`It did not run: a suite that it needs did not pass.*It needs:.*failed.*builds/${shipped?.id}">ship`),
    );
    await assertAccessible(
      (options) => browser.signIn(service.address, alice.credentials, options),
      [path, own].map((one) => `${service.address}${one}`),
    );
  });
});
