import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import {
  shellFrame,
  shellFrameReader,
  textOf,
  type FrameLetter,
  type ShellFrame,
} from '../../../src/shared/domain/shell-frames.ts';
import { TestBrowser } from '../../support/browser.ts';
import { describeWithRunnerOnOne } from '../../support/runner.ts';
import { runningBuild } from '../../support/running-build.ts';
import { staysThere } from '../../support/shells.ts';
import { Tab } from '../../support/tab.ts';
import type { User } from '../../support/user.ts';
import { longestWait } from '../../support/pauses.ts';

const files = { location: 'location-of-the-tests', name: 'name-of-the-files', key: 'ab'.repeat(32) };
const patient = new AbortController().signal;

/** The page of a shell in a real browser, with a runner that does what the test says. */
describeWithRunnerOnOne('a shell in the browser', (service, runner, database) => {
  const browser = new TestBrowser(database);
  let alice: User;
  let path: string;
  before(async () => {
    alice = await service.user();
    const { task, path: made } = await runningBuild(alice, runner);
    path = made;
    await staysThere(service.store, database, runner.self);
    const outcome = { kind: 'exited', status: 1 } as const;
    await runner.dispatch.finish(runner.self, { claim: task.order.claim, outcome, logSize: 0, kept: files });
  });

  /** The runner's end of the next shell that somebody opens. */
  const taken = async () => {
    const asked = { location: files.location, running: [], room: 4 };
    const [order = assert.fail()] = await runner.dispatch.shells(runner.self, asked, patient);
    const { id: shell } = order;
    const read = shellFrameReader();
    const waiting: ShellFrame[] = [];
    let [from, offset] = [0, 0];
    return {
      async next(): Promise<string> {
        while (waiting.length === 0) {
          const typed = await runner.dispatch.shellInput(runner.self, { shell, from }, patient);
          if (!typed) throw new Error('the shell is over');
          from += typed.length;
          waiting.push(...read(typed));
        }
        const { letter, content } = waiting.shift() ?? assert.fail();
        return `${letter} ${textOf(content)}`;
      },
      end: () => runner.dispatch.shellEnd(runner.self, { shell, reason: 'exited' }),
      async show(letter: FrameLetter, content: string): Promise<void> {
        const bytes = shellFrame(letter, content);
        for (const end = offset + bytes.length; offset < end;) {
          const piece = { shell, offset, bytes: bytes.subarray(bytes.length - (end - offset)) };
          offset = (await runner.dispatch.shellOutput(runner.self, piece, patient))?.at ?? offset;
        }
      },
    };
  };

  test('loads its script when it is opened, which a page that is loaded again does not do', async () => {
    const { page, complaints } = await browser.signInNoting(service.address, alice.credentials);
    const scripts: string[] = [];
    page.on('request', (request) => void scripts.push(new URL(request.url()).pathname));
    const isLoaded = (): boolean => scripts.some((one) => /\/shell\.\w+\.js$/.test(one));
    await page.goto(`${service.address}/ui${path}/shell`);
    const button = page.getByRole('button', { name: 'Open the shell' });
    await button.waitFor();
    assert.equal(isLoaded(), false);
    await button.click();
    const shell = await taken();
    assert.match(await shell.next(), /^h /);
    assert.equal(isLoaded(), true);
    await shell.end();
    assert.deepEqual(complaints, []);
    await page.reload();
    await button.waitFor();
    await page.close();
  });

  test(
    'is offered where a build failed, shows what comes, and sends what is typed',
    { timeout: longestWait },
    async () => {
      const { page, complaints } = await browser.signInNoting(service.address, alice.credentials);
      await page.goto(`${service.address}/ui${path}/details`);
      await page.getByRole('link', { name: 'Open a shell' }).click();
      const shell = await taken();
      assert.match(await shell.next(), /^h \{"terminal":\{"type":"xterm-256color","rows":\d+,"columns":\d+\}\}$/);
      await shell.show('d', '\u001b[38;2;10;20;30mhello\u001b[0m from the build\r\n$ ');
      await page.getByText('hello').first().waitFor();
      await page.keyboard.type('ls');
      await page.keyboard.press('Enter');
      let typed = '';
      while (!typed.endsWith('\r')) typed += (await shell.next()).slice(2);
      assert.equal(typed, 'ls\r');
      await shell.show('x', '3');
      await page.getByText('The shell has ended with status 3.').waitFor();
      await shell.end();
      assert.deepEqual(complaints, [], 'also nothing that the policy of the page forbids');
    },
  );

  test('ends when its page is left', { timeout: longestWait }, async () => {
    const page = await browser.signIn(service.address, alice.credentials);
    await page.goto(`${service.address}/ui${path}/shell#open`);
    const shell = await taken();
    await shell.next();
    await page.goto(`${service.address}/ui${path}`);
    await assert.rejects(async () => {
      for (;;) await shell.next();
    }, /the shell is over/);
  });

  test('is opened by nobody without the key of a form, nor from the page of another site [promise: browser-credentials]', async () => {
    const tab = new Tab(service);
    await tab.signIn(alice.credentials);
    const at = `/ui/data${path}/shell`;
    const cookie = Array.from(tab.cookies, ([name, value]) => `${name}=${value}`).join('; ');
    for (const headers of [{}, { 'x-form-key': 'x' }, { 'x-form-key': 'x', 'sec-fetch-site': 'cross-site' }]) {
      const answer = await service.api.post(at, { headers: { cookie, ...headers } });
      assert.equal(answer.status, 401, answer.text);
    }
    const shells = await service.store.db.read
      .selectFrom('shells')
      .select('id')
      .where('state', '=', 'waiting')
      .execute();
    assert.deepEqual(shells, []);
  });
});
