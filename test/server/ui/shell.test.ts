import assert from 'node:assert/strict';
import { once } from 'node:events';
import { before, test } from 'node:test';
import type { FrameLetter } from '../../../src/shared/domain/shell-frames.ts';
import { TestBrowser } from '../../support/browser.ts';
import { describeWithRunnerOnOne, type ScriptedRunner } from '../../support/runner.ts';
import { runningBuild } from '../../support/running-build.ts';
import { handshake, shellRunner, socketTo } from '../../support/shell-ends.ts';
import { staysThere } from '../../support/shells.ts';
import { Tab } from '../../support/tab.ts';
import type { User } from '../../support/user.ts';
import { longestWait } from '../../support/pauses.ts';

const files = { location: 'location-of-the-tests', name: 'name-of-the-files', key: 'ab'.repeat(32) };
const patient = new AbortController().signal;

/** The page of a shell in a real browser, with a runner that does what the test says. */
describeWithRunnerOnOne('a shell in the browser', (service, scripted, database) => {
  const browser = new TestBrowser(database);
  let alice: User;
  let path: string;
  let remote: Awaited<ReturnType<typeof shellRunner>>;
  let runner: ScriptedRunner;
  before(async () => {
    remote = await shellRunner(service, scripted);
    runner = remote.scripted;
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
    const end = remote.end(order.id);
    return {
      next: () => end.next(),
      async end() {
        await runner.dispatch.shellEnd(runner.self, { shell: order.id, reason: 'exited' });
        end.end();
      },
      show: (letter: FrameLetter, content: string) => end.send(letter, content),
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
    for (let frame = ''; frame !== 'm The shell has ended.';) frame = await shell.next();
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

  test('is connected to by a script of our own pages alone [promise: browser-credentials]', async () => {
    const tab = new Tab(service);
    await tab.signIn(alice.credentials);
    const page = await tab.get(`/ui${path}/shell`);
    const [, key = assert.fail()] = /data-key="([^"]+)"/.exec(page.text) ?? [];
    const cookie = Array.from(tab.cookies, ([name, value]) => `${name}=${value}`).join('; ');
    const opened = await service.api.post(`/ui/data${path}/shell`, { headers: { cookie, 'x-form-key': key } });
    const shell = await taken();
    const at = `/ui/data${path}/shell/${(opened.body.response as { id_str: string }).id_str}`;
    const ours = { cookie, origin: service.address, 'sec-websocket-protocol': `headrace-shell, ${key}` };
    const { origin: _, ...withoutOrigin } = ours;
    const { cookie: __, ...withoutCookie } = ours;
    for (const headers of [
      withoutOrigin,
      withoutCookie,
      { ...ours, origin: 'null' },
      { ...ours, origin: 'https://evil.example.org' },
      { ...ours, 'sec-fetch-site': 'cross-site' },
      { ...ours, 'sec-fetch-site': 'none', origin: 'https://evil.example.org' },
      { ...ours, 'sec-websocket-protocol': 'headrace-shell' },
      { ...ours, 'sec-websocket-protocol': 'headrace-shell, x' },
    ]) {
      const answer = await service.api.get(`${at}/connection`, { headers: { ...handshake, ...headers } });
      assert.equal(answer.status, 401, JSON.stringify(headers));
    }
    const { cookie: sent, origin } = ours;
    const socket = socketTo(service, `${at}/connection`, {
      headers: { cookie: sent, origin },
      protocols: ['headrace-shell', key],
    });
    await once(socket, 'open');
    assert.equal(socket.protocol, 'headrace-shell');
    socket.terminate();
    await shell.end();
  });
});
