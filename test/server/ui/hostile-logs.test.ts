import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Page } from 'playwright-core';
import { packLog } from '../../../src/server/streams/pack-log.ts';
import { TestBrowser } from '../../support/browser.ts';
import { ScriptedRunner } from '../../support/runner.ts';
import { runningBuild, type RunningBuild } from '../../support/running-build.ts';
import { describeServiceOnOne } from '../../support/service.ts';
import type { User } from '../../support/user.ts';

/** Logs as large and as wrong as somebody can make them who wants to break the page of whoever looks at them. */

const megabytes = 1024 * 1024;
const longLine = Buffer.alloc(6 * megabytes, 'long ');
const sequences = Buffer.alloc(5_000_000, '\x1b[31m'); // a million of them
const moves = Buffer.alloc(4_000_000, 'x\b\r\x1b[K'.padEnd(8, 'y'));
const links = Buffer.alloc(3 * megabytes, '\x1b]8;;https://example.org/\x1b\\');
const nothing = Buffer.alloc(2 * megabytes); // NUL bytes
const broken = Buffer.alloc(2 * megabytes, Buffer.from([0xff, 0xc3, 0x28, 0xe2, 0x82, 0xf0, 0x9f, 0x80]));
const unended = Buffer.from('\x1b]8;;https://example.org/never-ends \x1b[38;5;999999999999999999m\x1b[99999999999999C');
const lines = [longLine, sequences, moves, links, nothing, broken, unended];

describeServiceOnOne('the log viewer, shown the worst', (service, database) => {
  const browser = new TestBrowser(database);
  let runner: ScriptedRunner;
  let alice: User;
  let page: Page;
  let build: RunningBuild;
  let complaints: string[];
  before(async () => {
    runner = await ScriptedRunner.start(service.store);
    alice = await service.user();
    ({ page, complaints } = await browser.signInNoting(service.address, alice.credentials));
    build = await runningBuild(alice, runner);
    const whole = Buffer.concat([...lines.flatMap((line) => [line, Buffer.from('\n')]), Buffer.from('the end\n')]);
    for (let at = 0; at < whole.length; at += megabytes) await build.task.writeLog(whole.subarray(at, at + megabytes));
    await build.task.exit(0);
    await packLog(service.store.db, service.store.blobs, build.id);
  });
  after(() => runner.dispatch.close());

  const open = async (hash = ''): Promise<void> => {
    await page.goto('about:blank');
    await page.goto(`${service.address}/ui${build.path}${hash}`);
    await page.locator('.log-loaded').waitFor();
  };
  const line = (number: number) => page.locator(`.log-view [data-line="${number}"]`);
  const text = async (number: number): Promise<string> => (await line(number).locator('.log-text').textContent()) ?? '';

  test('shows the beginning of each line, and holds little of it', async () => {
    await open();
    assert.equal(await text(lines.length + 1), 'the end');
    assert.match(await text(1), /^long long /);
    assert.match(await text(3), /^[xy]*/);
    assert.match(await text(5), /^\u2400+/, 'NUL bytes are shown as signs');
    assert.match(await text(6), /^\ufffd/, 'what is no UTF-8 is shown as such');
    for (let number = 1; number <= lines.length; number += 1) {
      assert.ok((await text(number)).length < 100_000, `line ${number} is cut`);
    }
    assert.equal(await line(2).locator('.log-cut').count(), 1, 'it says that there is more');
    const elements = Number(await page.evaluate(`document.querySelectorAll('.log-view *').length`));
    assert.ok(elements < 5000, `${elements} elements`);
    assert.deepEqual(complaints, []);
  });

  test('takes any number for a line in its address', async () => {
    const wrong = ['#L0', '#L-1', `#L${'9'.repeat(400)}`, '#L3-L1e9', '#L5-L2', '#L%00', '#L1;L2'];
    await open('#L9007199254740993');
    for (const hash of wrong) {
      await page.evaluate(`location.hash = '${hash}'`);
      await page.keyboard.press('Shift+G');
      await line(lines.length + 1).waitFor();
      assert.equal(await text(lines.length + 1), 'the end', hash);
    }
    assert.deepEqual(complaints, []);
  });

  test('finds what stands behind all of it, and words in it', async () => {
    await open();
    await page.keyboard.press('/');
    await page.keyboard.type('the end$');
    await page.keyboard.press('Enter');
    await page.getByText('1 line in all').waitFor();
    await page.waitForURL(new RegExp(`#L${lines.length + 1}$`));
    await page.keyboard.press('Escape');
    await page.keyboard.press('/');
    await page.locator('.log-search input').fill('long');
    await page.keyboard.press('Enter');
    await page.getByText('1 line in all').waitFor();
    assert.deepEqual(complaints, []);
  });

  test('can be read without scripts, and by lines over the API', async () => {
    const plain = await browser.open({ javaScriptEnabled: false, storageState: await page.context().storageState() });
    const answer = await plain.goto(`${service.address}/ui${build.path}`);
    assert.ok(((await answer?.body())?.length ?? Infinity) < 4 * megabytes);
    await plain
      .locator(`#L${lines.length + 1}`)
      .getByText('the end')
      .waitFor();
    await plain.getByRole('link', { name: 'Earlier lines' }).first().click();
    await plain.locator('#L1').getByText('long long').waitFor();
    await plain.getByRole('link', { name: 'Later lines' }).first().click();
    await plain.locator('#L5').waitFor();
    const { record } = await alice.get(`${build.path}/log/lines?from=-1`);
    assert.deepEqual(
      (record.lines as { text: string }[]).map((one) => one.text),
      ['the end'],
    );
    const far = await alice.get(`${build.path}/log/lines?from=${'9'.repeat(15)}`);
    assert.deepEqual([far.status, far.record.lines], [200, []]);
    const farther = await alice.get(`${build.path}/log/lines?from=${'9'.repeat(30)}`);
    assert.equal(farther.status, 403);
  });
});
