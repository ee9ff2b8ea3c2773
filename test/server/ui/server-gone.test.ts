import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import type { Page } from 'playwright-core';
import { fillInSignIn, TestBrowser } from '../../support/browser.ts';
import { onOneDatabase } from '../../support/databases.ts';
import { startInstallation, type Installation, type Project } from '../../support/installation.ts';
import { freePort } from '../../support/ports.ts';
import { longestWait } from '../../support/pauses.ts';

/** Somebody looks at a log while the server dies in the middle of it, and comes back at the same address. */

/** It talks until it is cancelled: so it is in the middle of it whenever the server dies. */
const command = 'n=0; while :; do n=$((n + 1)); echo "line $n"; sleep 0.02; done';

onOneDatabase((database) => {
  const browser = new TestBrowser(database);
  let installation: Installation;
  let project: Project;
  let page: Page;
  before(async () => {
    installation = await startInstallation(database, {}, { port: await freePort() });
    project = await installation.project();
    page = await browser.open({ viewport: { width: 1280, height: 800 } });
    await page.goto(`${installation.address()}/ui/`);
    const [, password = ''] = /password\s+(\S+)/.exec(installation.serving().output) ?? [];
    await fillInSignIn(page, { email: 'admin@localhost', password });
    await page.getByRole('button', { name: 'Sign out' }).waitFor();
  });

  test('says that the connection is lost, comes back by itself, and shows each line once', async (t) => {
    const suite = await project.suite(t, 'talks', command);
    const request = await project.ask('main');
    await project.untilLogged(suite, /line 10\n/);
    const [commit] = await project.commits();
    const [build] = await project.builds(commit);
    await page.goto(`${installation.address()}/ui${project.path}/builds/${build?.id_str}`);
    const line = (number: number) => page.locator(`.log-view [data-line="${number}"]`);
    /** The last line on the page, once it is not before a certain one. */
    const last = async (least: number): Promise<number> => {
      for (const startedAt = Date.now(); ; await pause(50)) {
        const end = Number(
          await page.evaluate(`Math.max(0, ...Array.from(document.querySelectorAll('.log-view [data-line]'),
            (one) => Number(one.dataset.line)))`),
        );
        if (end >= least) return end;
        assert.ok(Date.now() - startedAt < longestWait, `it stays at line ${end}`);
      }
    };
    const before = await last(10);
    await installation.killServer();
    await page.locator('.log').getByText('The connection is lost').waitFor();
    await installation.startServer();
    await last(before + 100);
    assert.equal(await page.locator('.log').getByText('The connection is lost').count(), 0);
    await page.getByRole('button', { name: 'Cancel' }).click();
    await page.locator('#build .state', { hasText: 'cancelled' }).waitFor();
    assert.equal((await project.end(request)).build_state, 'cancelled');
    // The whole log, piece by piece, as somebody sees it who scrolls through it.
    const told = (await project.log(build)).split('\n').filter((text) => text !== '');
    await line(told.length).waitFor(); // it follows the log, and may be a moment behind
    const seen = new Map<number, string>();
    for (let number = 1; number <= told.length; number += 20) {
      await page.evaluate(`location.hash = '#L${number}'`);
      await line(number).waitFor();
      const texts = await page.locator('.log-view .log-line').evaluateAll((all) =>
        all.map((row) => ({
          number: Number(row.getAttribute('data-line')),
          text: row.querySelector('.log-text')?.textContent ?? '',
        })),
      );
      assert.equal(new Set(texts.map((one) => one.number)).size, texts.length, 'no line is there twice');
      for (const one of texts) seen.set(one.number, one.text);
    }
    const whole = Array.from(seen).toSorted(([a], [b]) => a - b);
    assert.deepEqual(
      whole.map(([, text]) => text),
      told,
    );
    const lines = told.filter((text) => text.startsWith('line '));
    assert.deepEqual(
      lines,
      lines.map((_, at) => `line ${at + 1}`),
    );
  });
});
