import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import axe from 'axe-core';
import type { Page } from 'playwright-core';
import { packLog } from '../../../src/server/streams/pack-log.ts';
import { assertAccessible } from '../../support/accessibility.ts';
import { fillInSignIn, TestBrowser } from '../../support/browser.ts';
import { ScriptedRunner } from '../../support/runner.ts';
import { held, runningBuild, type RunningBuild } from '../../support/running-build.ts';
import { describeServiceOnOne } from '../../support/service.ts';
import type { User } from '../../support/user.ts';

const hostile = [
  '<script>window.hacked = 1</script><img src=x onerror="window.hacked = 2">',
  '\x1b]8;;javascript:window.hacked=3\x1b\\click\x1b]8;;\x1b\\ \x1b]8;;https://example.org/a"b\x1b\\real\x1b]8;;\x1b\\',
  'progress 10%\rprogress 99%\x1b[K',
  'gone\x1b[2K\rkept',
  `\x1b[31;1mred\x1b[0m \x1b[38;5;196mcube\x1b[38;2;1;2;3mtrue\x1b[48;5;226m\x1b[97mon yellow\x1b[0m \u202eturned\u202c\0`,
  '\x1b[32mgreen from here',
  'and on \x1b[3;4;9mall\x1b[0m',
];

describeServiceOnOne('the log viewer', (service, database) => {
  const browser = new TestBrowser(database);
  let runner: ScriptedRunner;
  let alice: User;
  let page: Page;
  let complaints: string[];
  before(async () => {
    runner = await ScriptedRunner.start(service.store);
    alice = await service.user();
    ({ page, complaints } = await browser.signInNoting(service.address, alice.credentials));
  });
  after(() => runner.dispatch.close());

  const open = async ({ path }: RunningBuild, hash = ''): Promise<void> => {
    await page.goto('about:blank');
    await page.goto(`${service.address}/ui${path}${hash}`);
    await page.locator('.log-loaded').waitFor();
  };
  const line = (number: number) => page.locator(`.log-view [data-line="${number}"]`);
  const text = async (number: number): Promise<string> => (await line(number).locator('.log-text').textContent()) ?? '';
  /**
   * Waits until a line is in view: it is drawn in one frame, and scrolled to in another. Not with waitForFunction, which
   * looks again by means that the page's policy forbids.
   */
  const seen = async (number: number): Promise<void> => {
    await page.evaluate(`new Promise((resolve) => {
      const look = () => {
        const line = document.querySelector('.log-view [data-line="${number}"]');
        const [own, view] = [line, line?.closest('.log-view')].map((element) => element?.getBoundingClientRect());
        if (own && view && own.top >= view.top && own.bottom <= view.bottom) resolve();
        else requestAnimationFrame(look);
      };
      look();
    })`);
  };
  const say = async ({ task }: RunningBuild, from: number, to: number): Promise<void> => {
    let words = '';
    for (let number = from; number <= to; number += 1) words += `line ${number}\n`;
    await task.writeLog(words);
  };

  test('shows what a log holds as a terminal does, and nothing in it becomes markup', async () => {
    const build = await runningBuild(alice, runner);
    await using _ = held(build, runner);
    await build.task.writeLog(`${hostile.join('\n')}\n`);
    await open(build);
    assert.equal(await text(1), hostile[0]);
    assert.equal(await page.evaluate('window.hacked'), undefined);
    assert.equal(await page.locator('.log img, .log script').count(), 0);
    const links = line(2).locator('.log-text a');
    assert.equal(await links.count(), 1, 'a link to a script is none');
    assert.match((await links.getAttribute('href')) ?? '', /^https:\/\/example\.org\/a/);
    assert.match((await links.getAttribute('rel')) ?? '', /noopener/);
    assert.equal(await text(3), 'progress 99%');
    assert.equal(await text(4), 'kept');
    assert.equal(await text(5), 'red cubetrueon yellow \ufffdturned\ufffd\u2400');
    assert.equal(await line(6).locator('.log-c2').textContent(), 'green from here');
    assert.equal(await line(7).locator('.log-c2').first().textContent(), 'and on ');
    assert.equal(await line(7).locator('.log-c2.log-italic.log-underline.log-struck').textContent(), 'all');
    assert.deepEqual(complaints, []);
  });

  test('follows a log that grows, until somebody scrolls up, and again with End', async () => {
    const build = await runningBuild(alice, runner);
    await using _ = held(build, runner);
    await say(build, 1, 300);
    await open(build);
    await line(300).waitFor();
    await seen(300);
    await say(build, 301, 20_300);
    await line(20_300).waitFor();
    await seen(20_300);
    await page.locator('.log-view').hover();
    await page.mouse.wheel(0, -2000);
    await page.locator('button[aria-pressed=false]', { hasText: 'Follow' }).waitFor();
    await say(build, 20_301, 20_400);
    await page.locator('.log-space[style*="489600px"]').waitFor();
    assert.equal(await line(20_400).count(), 0, 'it stays where it is');
    await page.keyboard.press('End');
    await line(20_400).waitFor();
    await page.keyboard.press('g');
    await line(1).waitFor();
    assert.equal(await text(1), 'line 1');
    await build.task.exit(0);
    await page.keyboard.press('Shift+G');
    await line(20_400).waitFor();
    await page.getByRole('button', { name: 'Follow' }).waitFor({ state: 'hidden' }); // nothing is left to be followed
    assert.deepEqual(complaints, []);
  });

  test('goes on to follow when there is more room for lines', async () => {
    const build = await runningBuild(alice, runner);
    await using _ = held(build, runner);
    await say(build, 1, 300);
    await open(build);
    await line(300).waitFor();
    await seen(300);
    // A line of the page above goes, and something reads a position before the next frame: then the browser scrolls up.
    await page.evaluate(`(async () => {
      const view = document.querySelector('.log-view');
      const frames = async () => {
        for (let n = 0; n < 3; n += 1) await new Promise((resolve) => requestAnimationFrame(resolve));
      };
      view.style.flex = 'none';
      view.style.height = '200px';
      await frames();
      await new Promise((resolve) => setTimeout(resolve)); // between two frames
      view.style.height = '400px';
      view.getBoundingClientRect();
      await frames();
    })()`);
    await say(build, 301, 400);
    await line(400).waitFor();
    await seen(400);
    assert.deepEqual(complaints, []);
  });

  test('opens at a line or a range, makes addresses of them, folds groups, and finds words and failures', async () => {
    const build = await runningBuild(alice, runner);
    const noise = (name: string): string => Array.from({ length: 5000 }, (_, n) => `${name} ${n}\n`).join('');
    await build.task.writeLog(`::group::install\n${noise('fetch')}::endgroup::\n--- tests\n${noise('test')}`);
    await build.task.writeLog(
      `FAIL src/a.test.ts\n\x1b[31mneedle\x1b[0m here\n--- more\n${noise('more')}error: at last\n`,
    );
    await build.task.exit(1);
    await packLog(service.store.db, service.store.blobs, build.id);
    await open(build, '#L7000-L7002');
    await line(7000).waitFor();
    await seen(7000);
    const chosen = () =>
      page.locator('.log-selected').evaluateAll((all) => all.map((one) => one.getAttribute('data-line')));
    assert.deepEqual(await chosen(), ['7000', '7001', '7002']);
    await line(7004).locator('.log-number').click();
    await line(7006)
      .locator('.log-number')
      .click({ modifiers: ['Shift'] });
    await page.waitForURL(/#L7004-L7006$/);
    assert.deepEqual(await chosen(), ['7004', '7005', '7006']);

    await page.keyboard.press('/');
    await page.keyboard.type('ne+dle h');
    await page.keyboard.press('Enter');
    await page.getByText('1 line in all').waitFor();
    await page.waitForURL(/#L10005$/);
    await seen(10_005);
    await page.keyboard.press('Escape');
    await page.keyboard.press('f');
    await page.waitForURL(/#L15007$/);
    await page.keyboard.press('f');
    await page.waitForURL(/#L10004$/);
    await page.keyboard.press('/');
    await page.keyboard.type('(unclosed');
    await page.keyboard.press('Enter');
    await page.getByText('This is no regular expression').waitFor();
    await page.keyboard.press('Escape');

    await page.keyboard.press('g');
    await line(5003).waitFor();
    await seen(5003); // groups that have ended are folded, but for the one with the first failure
    const install = page.getByRole('button', { name: 'Group install' });
    assert.equal(await line(2).count(), 0);
    assert.equal(await install.getAttribute('aria-expanded'), 'false');
    await line(1).getByText('install').click(); // its name does the same as its mark
    await line(2).waitFor();
    await install.click();
    await line(2).waitFor({ state: 'detached' });
    await seen(5003); // what comes after the group moves up

    await page.keyboard.press('?');
    await page.getByRole('dialog').getByText('Next line that reports a failure').waitFor();
    await page.getByRole('button', { name: 'Close' }).click();
    assert.equal(await line(1).locator('.log-time').isVisible(), false);
    await page.getByRole('button', { name: 'Times' }).click();
    assert.match((await line(1).locator('.log-time').textContent()) ?? '', /^00:00\.000$/);
    assert.ok(await line(1).locator('.log-time').isVisible());
    await page.getByRole('button', { name: 'Times' }).click();
    assert.deepEqual(
      complaints.filter((one) => !one.includes('403')),
      [],
    );
    complaints.length = 0;
  });

  test('leads from a line to the builds that said such a line, and from annotations to their lines', async () => {
    const build = await runningBuild(alice, runner);
    await build.task.writeLog('fine\n\x1b[31mlost worker 12 of (34)\x1b[0m\n');
    await say(build, 3, 400);
    await build.task.writeLog('::error file=src/gate.c,line=7,title=Gate::the <b>gate</b> does not close\n');
    await build.task.exit(1);
    await open(build, '#L2');
    await line(2).getByRole('link', { name: 'Seen before?' }).waitFor();
    assert.equal(await page.getByRole('link', { name: 'Seen before?' }).count(), 1);
    await page.getByRole('link', { name: 'src/gate.c:7' }).click();
    await line(401).getByRole('link', { name: 'Seen before?' }).waitFor();
    assert.equal(new URL(page.url()).hash, '#L401');
    assert.equal(await line(2).count(), 0, 'it went there');
    await page.evaluate("location.hash = '#L2'");
    await line(2).getByRole('link', { name: 'Seen before?' }).click();
    await page.getByRole('heading', { name: 'Search logs' }).waitFor();
    const expression = String.raw`lost worker \d+ of \(\d+\)`;
    assert.equal(await page.getByRole('searchbox', { name: 'Search logs' }).inputValue(), expression);
    await page.getByRole('link', { name: /line 2$/ }).waitFor();
    assert.equal(await page.locator('#found-logs li').count(), 1);
    const results = page.url();
    assert.deepEqual(complaints, []);
    await assertAccessible(
      (options) => browser.signIn(service.address, alice.credentials, options),
      [results, `${service.address}/ui${build.path}#L2`],
    );
  });

  test('marks all that it finds, also where a busy server answers a search in parts', async () => {
    const build = await runningBuild(alice, runner);
    await using _ = held(build, runner);
    await build.task.writeLog('here\nhere\nnothing\nhere\n');
    await page.route('**/log/matches*', async (route) => {
      const response = await route.fetch();
      const { response: found } = (await response.json()) as { response: { matches: { number: number }[] } };
      const [first, more] = found.matches;
      const part = { matches: found.matches.slice(0, 1), complete: false, next: (first?.number ?? 0) + 1 };
      await route.fulfill({ response, json: { response: more ? part : found } });
    });
    await open(build);
    await page.keyboard.press('/');
    await page.keyboard.type('here');
    await page.keyboard.press('Enter');
    await page.getByText('3 lines in all').waitFor();
    for (const number of [1, 2, 4]) await page.locator(`.log-match[data-line="${number}"]`).waitFor();
    await page.unroute('**/log/matches*');
    assert.equal(await page.locator('.log-match').count(), 3);
  });

  test('reaches every line of a log that is higher than an element can be', async () => {
    const build = await runningBuild(alice, runner);
    await using _ = held(build, runner);
    const million = Buffer.alloc(1_000_000 * 2, 'x\n');
    await build.task.writeLog(million);
    await build.task.writeLog('last\n');
    await open(build);
    await line(1_000_001).waitFor();
    assert.ok((await page.locator('.log-space').evaluate((space) => space.getBoundingClientRect().height)) < 16e6);
    assert.equal(await text(1_000_001), 'last');
    for (const wanted of [1, 999_999, 500_000, 123_456]) {
      await page.evaluate(`location.hash = '#L${wanted}'`);
      await line(wanted).waitFor();
      await seen(wanted);
    }
    await page.locator('.log-view').hover();
    await page.mouse.wheel(0, 200);
    await line(123_464).waitFor();
    await seen(123_464); // and goes on line by line from there
  });

  test('says that the connection is lost, and comes back without losing or doubling a line', async () => {
    const build = await runningBuild(alice, runner);
    await using _ = held(build, runner);
    await say(build, 1, 50);
    await open(build);
    await line(50).waitFor();
    await page.context().setOffline(true);
    await page.route('**/log/growth', (route) => route.abort());
    await page.reload().catch(() => {});
    await page.context().setOffline(false);
    await page.goto(`${service.address}/ui${build.path}`);
    await page.locator('.log').getByText('The connection is lost').waitFor();
    await say(build, 51, 60);
    await page.unroute('**/log/growth');
    await line(60).waitFor();
    const numbers = await page.locator('.log-view .log-number').allTextContents();
    assert.deepEqual(
      numbers,
      Array.from({ length: 60 }, (_, at) => String(at + 1)),
    );
    assert.equal(await page.locator('.log').getByText('The connection is lost').count(), 0);
    complaints.length = 0;
  });

  test('can be read without scripts, page by page', async () => {
    const build = await runningBuild(alice, runner);
    await using _ = held(build, runner);
    await say(build, 1, 1200);
    const plain = await browser.open({ javaScriptEnabled: false, storageState: await page.context().storageState() });
    await plain.goto(`${service.address}/ui${build.path}`);
    assert.equal(await plain.locator('.log-line').count(), 500);
    await plain.locator('#L1200').getByText('line 1200').waitFor();
    await plain.getByRole('link', { name: 'Earlier lines' }).first().click();
    await plain.locator('#L201').getByText('line 201').waitFor();
    assert.equal(await plain.locator('#L701').count(), 0);
  });

  test('breaks no rule of WCAG 2.2 AA, in light and dark, while a search is open', async () => {
    const build = await runningBuild(alice, runner);
    await using _ = held(build, runner);
    const grounds = Array.from({ length: 16 }, (_n, at) => `\x1b[38;5;${at}mcolour\x1b[48;5;${15 - at}m both\x1b[0m`);
    const cube = Array.from(
      { length: 24 },
      (_n, at) => `\x1b[38;5;${16 + at * 10}mcube\x1b[7m inverse\x1b[0m \x1b[2mfaint\x1b[0m`,
    );
    await build.task.writeLog(`::group::colours\n${[...hostile, ...grounds, ...cube].join('\n')}\n`);
    await open(build, '#L3-L5');
    await page.keyboard.press('/');
    await page.keyboard.type('colour|cube');
    await page.keyboard.press('Enter');
    await page.getByText('in all').waitFor();
    const cdp = await page.context().newCDPSession(page);
    const frame = (await cdp.send('Page.getFrameTree')).frameTree.frame.id;
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme });
      // In a world of its own: the page's policy would not let a foreign script in.
      const { executionContextId } = await cdp.send('Page.createIsolatedWorld', { frameId: frame });
      const options = JSON.stringify({ runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'] });
      await cdp.send('Runtime.evaluate', { expression: `var module;${axe.source}`, contextId: executionContextId });
      const { result } = await cdp.send('Runtime.evaluate', {
        expression: `axe.run(document, ${options}).then(({ violations }) => violations.map(({ id, nodes }) => [id, ...nodes.slice(0, 3).map(({ html, any }) => html + ' ' + (any[0]?.message ?? ''))]))`,
        contextId: executionContextId,
        awaitPromise: true,
        returnByValue: true,
      });
      assert.deepEqual(result.value, [], colorScheme);
    }
    await page.emulateMedia({ colorScheme: 'light' });
  });

  test('is nothing to another account', async () => {
    const build = await runningBuild(alice, runner);
    await using _ = held(build, runner);
    await build.task.writeLog('secret\n');
    const other = await browser.open();
    await other.goto(`${service.address}/ui/`);
    await fillInSignIn(other, (await service.user()).credentials);
    await other.getByRole('button', { name: 'Sign out' }).waitFor();
    for (const what of ['', '/log/view', '/log/matches?q=secret', '/log/growth']) {
      const address = what === '' ? `/ui${build.path}` : `/ui/data${build.path}${what}`;
      const status = await other.evaluate(async (to) => (await fetch(to)).status, address);
      assert.equal(status, 404, address);
    }
    const strange = await service.api.get(`/ui/data${build.path}/log/view`);
    assert.equal(strange.status, 401);
  });
});
