import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import type { Page } from 'playwright-core';
import type { ServiceState, StepState, TestReport } from '../../../src/shared/protocol/index.ts';
import type { Scope } from '../../../src/server/http/route.ts';
import { assertAccessible } from '../../support/accessibility.ts';
import { registerApplication } from '../../support/applications.ts';
import { TestBrowser } from '../../support/browser.ts';
import { assertWrongFields } from '../../support/expect.ts';
import { growingPauses, longestWait } from '../../support/pauses.ts';
import { addArtifact } from '../../support/rows.ts';
import { describeWithRunnerOnOne } from '../../support/runner.ts';
import { held, runningBuild, type RunningBuild } from '../../support/running-build.ts';
import { Tab } from '../../support/tab.ts';
import type { User } from '../../support/user.ts';

const lines = 700;
/** For what moves on a page until it stands. */
const patienceMs = longestWait / 5;
const sizes = [
  [1280, 800],
  [1920, 1080],
  [390, 844],
  [360, 640],
] as const;

function report(name: string, state: TestReport['state'], message = ''): TestReport {
  return { name, class: 'gauge', suite: 'unit', file: `test/${name}.ts`, state, durationMs: 12, message };
}

const reports = [
  ...Array.from({ length: 60 }, (_, at) => report(`reads gauge ${at}`, 'passed')),
  ...Array.from({ length: 12 }, (_, at) => report(`averages hour ${at}`, 'failed', `expected ${at}\nat average.ts`)),
  report('reads frozen gauges', 'skipped', 'not in summer'),
];

describeWithRunnerOnOne('the page of a build', (service, runner, database) => {
  let alice: User;
  let tab: Tab;
  /** It failed, with a long log, failed tests and many files. */
  let failed: RunningBuild;
  let stepwise: RunningBuild;
  let served: RunningBuild;
  const logOf = (count: number): string => Array.from({ length: count }, (_, at) => `line ${at + 1}\n`).join('');
  const tellTests = ({ task }: RunningBuild) =>
    runner.dispatch.tests(runner.self, { claim: task.order.claim, start: 0, tests: reports, isLast: true });
  before(async () => {
    alice = await service.user();
    tab = new Tab(service);
    await tab.signIn(alice.credentials);
    failed = await runningBuild(alice, runner, { name: 'unit tests' });
    await failed.task.writeLog(logOf(lines));
    await tellTests(failed);
    for (let file = 0; file < 12; file += 1) await addArtifact(service.store, failed, `dist/${file}.deb`);
    await failed.task.exit(1);
  });
  const page = async (below = ''): Promise<string> => {
    const { status, text } = await tab.get(`/ui${failed.path}${below}`);
    assert.equal(status, 200, below);
    return text.replaceAll(/\s+/g, ' ');
  };
  const namesIn = (text: string): string[] => Array.from(text.matchAll(/<strong>([^<]+)</g), ([, name = '']) => name);

  test('has tabs with addresses of their own, and their counts, without any script', async () => {
    const address = `/ui${failed.path}`;
    const wanted = [
      ['', 'Log 700'],
      ['/tests', 'Tests 73'],
      ['/artifacts', 'Artifacts 12'],
      ['/details', 'Details'],
    ];
    for (const [below = ''] of wanted) {
      const nav = /<nav id="tabs".*?<\/nav>/.exec(await page(below))?.[0] ?? '';
      const links = Array.from(nav.matchAll(/<a href="([^"]+)" (aria-current="page")?\s*>(.*?)<\/a/g), (found) => [
        found[1],
        found[2] !== undefined,
        found[3]?.replaceAll(/<[^>]+>/g, '').trim(),
      ]);
      assert.deepEqual(
        links,
        wanted.map(([one, text]) => [`${address}${one}`, one === below, text]),
      );
    }
    for (const [below = ''] of wanted) {
      const text = await page(below);
      assert.match(text, /<h1>unit tests /, below);
      assert.match(text, /exit status 1/, below);
      assert.ok(text.includes('> Run again </button>'), below);
      assert.ok(text.includes('>Download log</a>'), below);
    }
    assert.match(await page('/artifacts'), /12 files.*dist\/11\.deb/);
    assert.match(await page('/details'), /Exit status.*Ended|Ended.*Exit status/);
  });

  test('shows the tests that failed above the log, at most ten, and the others in their tab', async () => {
    const text = await page();
    const [above = '', log = ''] = text.split('class="log-part"');
    const expected = Array.from({ length: 10 }, (_, at) => `averages hour ${at}`);
    assert.deepEqual(namesIn(above), expected);
    assert.match(above, /12 tests failed<\/a> <span class="aside">the first 10</);
    assert.match(above, /<code>expected 9<\/code>/);
    assert.match(log, /line 700/);
    assert.doesNotMatch(text, /dist\/11\.deb|reads gauge/, 'what the other tabs have is there alone');
  });

  test('begins with why it failed, and leads from each line to its place in the log', async () => {
    const { text } = await tab.get(`/ui${failed.path}`);
    const [, brief = ''] = /<section id="brief"[^>]*>([^]*?)<\/section>/.exec(text) ?? [];
    assert.match(brief, /Failed in <code>command<\/code>/);
    assert.match(brief.replaceAll(/<[^>]*>/g, ''), /\n699 line 699\n700 line 700\n/);
    assert.ok(brief.includes(`href="/ui${failed.path}?from=700#L700"`));
  });

  test('lists failed tests first and folds those that passed; a filter looks through all', async () => {
    const folds = (text: string) =>
      Array.from(text.matchAll(/<details id="tests-(\w+)" class="tests" (open)?\s*>/g), ([, state, open]) => [
        state,
        open !== undefined,
      ]);
    const all = await page('/tests');
    assert.deepEqual(folds(all), [
      ['failed', true],
      ['skipped', false],
      ['passed', false],
    ]);
    assert.equal(namesIn(all)[0], 'averages hour 0');
    assert.equal(namesIn(all).filter((name) => name.startsWith('reads gauge')).length, 50);
    const found = await page('/tests?filter=GAUGE%2059');
    assert.deepEqual(namesIn(found), ['reads gauge 59'], 'it is not among those that are shown without a filter');
    assert.deepEqual(folds(found).at(-1), ['passed', true]);
    assert.match(found, /None of them has this in its name/);
    const api = await alice.get(`${failed.path}/tests?query=hour%201&state=failed`);
    assert.deepEqual(
      api.list.map(({ name }) => name),
      ['averages hour 1', 'averages hour 10', 'averages hour 11'],
    );
  });

  test('cancels and starts builds from each tab', async () => {
    const build = await runningBuild(alice, runner);
    await using _ = held(build, runner);
    const address = `/ui${build.path}/tests`;
    const sent = await tab.submit(await tab.get(address), address, { do: 'cancel' });
    assert.deepEqual([sent.status, sent.headers.location], [303, `${address}?done=cancelled`]);
    const refused = `/ui${failed.path}/details`;
    const again = await tab.submit(await tab.get(refused), refused, { do: 'restart' });
    assert.equal(again.status, 303);
    assert.match(String(again.headers.location), /\/builds\/\d+$/);
    await (await runner.take('run_suite')).exit(0);
    assert.match(await page(), /aria-label="Attempt 2: passed"/);
  });

  if (database.kind !== 'sqlite') return; // what a browser does depends on no database
  const browser = new TestBrowser(database);

  /** The line is in the window, and in the part of the log that is shown. */
  const assertSeen = async (shown: Page, line: number, about: string): Promise<void> => {
    await shown.locator(`.log-view [data-line="${line}"]`).waitFor();
    // It is drawn in one frame, and scrolled to in another; what loads meanwhile moves it once more.
    const wait = growingPauses();
    for (const deadline = performance.now() + patienceMs; ; await wait()) {
      const [top, bottom, least, most] = await shown.evaluate<[number, number, number, number]>(`(async () => {
        for (let frame = 0; frame < 5; frame += 1) await new Promise((done) => requestAnimationFrame(done));
        const own = document.querySelector('.log-view [data-line="${line}"]')?.getBoundingClientRect();
        const view = document.querySelector('.log-view').getBoundingClientRect();
        return [own?.top ?? -1, own?.bottom ?? -1, Math.max(0, view.top), Math.min(innerHeight, view.bottom)];
      })()`);
      // Positions are fractions of a pixel.
      if (bottom >= 0 && top >= least - 1 && bottom <= most + 1) return;
      const places = `line ${line} is at ${top} to ${bottom}, and ${least} to ${most} is seen`;
      assert.ok(performance.now() < deadline, `${about}: ${places}`);
    }
  };

  /** Without scripts. A click need not wait for the page that it leads to. */
  const isInWindow = async (shown: Page, line: number): Promise<boolean> => {
    const wait = growingPauses();
    for (const deadline = performance.now() + patienceMs; performance.now() < deadline; await wait()) {
      const box = await shown.locator(`#L${line}`).boundingBox();
      const bottom = box ? box.y + box.height : -1;
      if (bottom > 0 && bottom <= (shown.viewportSize()?.height ?? 0)) return true;
    }
    return false;
  };

  test('has the last line of its log in the window, when it opens and after G, at every size', async () => {
    for (const [width, height] of sizes) {
      const shown = await browser.signIn(service.address, alice.credentials, { viewport: { width, height } });
      await shown.goto(`${service.address}/ui${failed.path}`);
      const about = `${width} × ${height}`;
      await assertSeen(shown, lines, about);
      await shown.keyboard.press('g');
      await assertSeen(shown, 1, `${about}, top`);
      await shown.keyboard.press('Shift+G');
      await assertSeen(shown, lines, `${about}, after G`);
      assert.equal(await shown.evaluate('document.documentElement.scrollWidth <= innerWidth'), true, about);
      await shown.context().close();
    }
  });

  test('has it there without scripts, and begins another page of the log at its first line', async () => {
    const signedIn = await browser.signIn(service.address, alice.credentials);
    const storageState = await signedIn.context().storageState();
    const viewport = { width: 1280, height: 800 };
    const shown = await browser.open({ javaScriptEnabled: false, viewport, storageState });
    await shown.goto(`${service.address}/ui${failed.path}`);
    assert.ok(await isInWindow(shown, lines));
    await shown.goto(`${service.address}/ui${failed.path}?from=1`);
    assert.ok(await isInWindow(shown, 1));
    for (const one of [signedIn, shown]) await one.context().close();
  });

  test('keeps the end in the window when the build ends and its failed tests appear', async () => {
    const build = await runningBuild(alice, runner);
    const shown = await browser.signIn(service.address, alice.credentials, { viewport: { width: 1280, height: 800 } });
    {
      await using _ = held(build, runner);
      await build.task.writeLog(logOf(300));
      await shown.goto(`${service.address}/ui${build.path}`);
      await assertSeen(shown, 300, 'running');
      await build.task.writeLog('the end\n');
      await shown.locator('#count-log', { hasText: '301' }).waitFor();
      await tellTests(build);
    }
    await shown.locator('#failed-tests').getByText('averages hour 9').waitFor();
    await assertSeen(shown, 301, 'over');
    await shown.context().close();
  });

  test('has a heading for each step, folds those that passed, and begins at the first error of the one that failed', async () => {
    const named = ['install', 'a step with a name that is longer than the window of a telephone', 'publish', 'tidy up'];
    const fields = named.flatMap((name, at) => [
      [`steps[${at}][name]`, name],
      [`steps[${at}][command]`, `npm run ${at}\ntrue`],
    ]);
    stepwise = await runningBuild(alice, runner, { command: '', ...(Object.fromEntries(fields) as object) });
    const [install = '', second = '', publish = '', tidy = ''] = named;
    const failing = [
      { name: install, state: 'passed', status: 0, from: 0, to: 2040, line: 1 },
      { name: second, state: 'failed', status: 2, from: 2040, to: 65_040, line: 301 },
      { name: publish, state: 'skipped' },
    ] as const;
    const tell = async (steps: StepState[]): Promise<void> => {
      const { task } = stepwise;
      assert.deepEqual(await runner.dispatch.steps(runner.self, { claim: task.order.claim, steps }), { taken: true });
    };
    const error = 'src/average.ts:41:11 - error TS2345: a string is no number';
    const log = logOf(lines)
      .replace('line 100\n', 'error: this step passed all the same\n')
      .replace('line 310\n', '::group::compile\n')
      .replace('line 320\n', '::endgroup::\n')
      .replace('line 420\n', `\x1b[31m${error}\x1b[0m\n`);
    const wide = await browser.signIn(service.address, alice.credentials, { viewport: { width: 1280, height: 800 } });
    const list = (shown: Page) => shown.getByRole('region', { name: 'Steps' }).getByRole('listitem');
    const headings = (shown: Page) => shown.locator('.log-space').getByRole('heading');
    {
      await using _ = held(stepwise, runner);
      await wide.goto(`${service.address}/ui${stepwise.path}`);
      assert.deepEqual(
        await list(wide).allInnerTexts(),
        named.map((name) => `waiting\n${name}`),
      );
      assert.equal(await headings(wide).getByRole('button').count(), 0, 'nothing is there to be folded');
      await stepwise.task.writeLog(log);
      await tell([...failing, { name: tidy, state: 'running', from: 65_040, line: lines + 1 }]);
      await list(wide).getByText('running').waitFor();
      await headings(wide).getByText('running').waitFor();
      await tell([...failing, { name: tidy, state: 'passed', status: 0, from: 65_040, to: 66_000, line: lines + 1 }]);
      await list(wide).getByText('passed').nth(1).waitFor();
      await stepwise.task.exit(2);
    }
    const storageState = await wide.context().storageState();
    const bare = { javaScriptEnabled: false, storageState };
    for (const [width, height] of [sizes[0], sizes[3]]) {
      const plain = await browser.open({ ...bare, viewport: { width, height } });
      await wide.setViewportSize({ width, height });
      for (const shown of [wide, plain]) {
        const about = `${width} × ${height}, ${shown === wide ? 'with' : 'without'} scripts`;
        await shown.goto(`${service.address}/ui${stepwise.path}`);
        if (shown === wide) {
          await assertSeen(shown, 420, about);
          const found = shown.locator('.log-view .log-failure');
          assert.deepEqual(await found.locator('.log-text').allInnerTexts(), [error], about);
        } else {
          if (width === 1280) assert.ok(await isInWindow(shown, 420), about);
          assert.deepEqual(await shown.locator('.log-failure .log-text').allInnerTexts(), [error], about);
        }
        assert.equal(await shown.evaluate('document.documentElement.scrollWidth <= innerWidth'), true, about);
        if (width === 360 && shown === wide) continue; // there, the headings are the list
        assert.deepEqual(
          (await list(shown).allInnerTexts()).map((text) => text.split('\n')),
          [
            ['passed', install, '2.0 s'],
            ['failed', second, '1 min 3 s'],
            ['skipped', publish],
            ['passed', tidy, '1.0 s'],
          ],
          about,
        );
        const [first, last] = [await list(shown).first().boundingBox(), await list(shown).last().boundingBox()];
        assert.equal(first?.x, last?.x, 'they are in one column');
        assert.equal(await list(shown).getByRole('link').count(), 3, 'a step that did not run has no part of the log');
        const steps = [
          [install, 1],
          [second, 301],
          [tidy, shown === wide ? lines : lines + 1], // it said nothing, so its heading is there
          [install, 1],
        ] as const;
        for (const [name, line] of steps) {
          await list(shown).getByRole('link', { name }).click();
          if (shown === wide) await assertSeen(shown, line, about);
          else assert.ok(await isInWindow(shown, line), `${about}: line ${line}`);
        }
      }
      await plain.context().close();
    }
    await wide.setViewportSize({ width: 1280, height: 800 });
    await wide.goto(`${service.address}/ui${stepwise.path}`);
    await assertSeen(wide, 420, 'again');
    assert.match(await wide.locator('.log-current').innerText(), /^failed\n.*telephone\nnpm run 1\n1 min 3 s$/);
    await wide.keyboard.press('f');
    await assertSeen(wide, 100, 'after f'); // its step is opened for it
    await wide.keyboard.press('g');
    const button = (name: string) => headings(wide).getByRole('button', { name });
    await button(install).press('Enter');
    await wide.locator('.log-space [data-line="1"]').waitFor({ state: 'detached' });
    assert.equal(await button(install).getAttribute('aria-expanded'), 'false');
    assert.equal(await button(second).getAttribute('aria-expanded'), 'true');
    assert.deepEqual(
      await wide
        .locator('.log-space')
        .getByText(/::(end)?group::/)
        .count(),
      0,
    );
    const group = wide.getByRole('button', { name: 'Group compile' });
    assert.equal(await group.getAttribute('aria-expanded'), 'false', 'the error is not in it');
    await button(second).press('Enter');
    assert.deepEqual(
      (await headings(wide).allInnerTexts()).map((text) => text.split('\n').slice(0, 2)),
      [
        ['passed', install],
        ['failed', second],
        ['skipped', publish],
        ['passed', tidy],
      ],
    );
    assert.equal(await wide.locator('.log-space .log-line').count(), 0, 'every step is folded');
    await wide.context().close();
    const application = await registerApplication(service, alice);
    const commandsFor = async (scopes: Scope[]) => {
      const token = await application.token(alice, scopes);
      const { record } = await service.api.get(`${stepwise.path}/details?oauth_token=${token}`);
      return (record.step_parts as { command: string }[]).map(({ command }) => command);
    };
    assert.deepEqual(await commandsFor(['commits', 'suites']), ['npm run 0', 'npm run 1', 'npm run 2', 'npm run 3']);
    assert.deepEqual(await commandsFor(['commits']), ['', '', '', ''], 'commands are settings of suites');
  });

  test('leads up to its request, and sideways to the other suites with their states', async () => {
    const project = await alice.createProject();
    for (const name of ['unit', 'a suite whose name is longer than the window', 'types', 'lint']) {
      await alice.createSuite(project, { name });
    }
    await alice.requestBuild(project, 'main');
    await (await runner.take('fetch_commit')).fetched();
    const ended: string[] = [];
    for (const status of [0, 1, 0, 0]) {
      const task = await runner.take('run_suite');
      await task.writeLog(logOf(lines));
      await task.exit(status);
      ended.push(`/ui/projects/${project.id}/builds/${task.order.work.environment['HEADRACE_BUILD_ID']}`);
    }
    for (const viewport of [
      { width: 1280, height: 800 },
      { width: 360, height: 640 },
    ]) {
      const shown = await browser.signIn(service.address, alice.credentials, { viewport });
      await shown.goto(`${service.address}${ended[0]}`);
      const suites = shown.getByRole('navigation', { name: 'Suites' }).getByRole('link');
      const tops = await suites.evaluateAll((all) => all.map((one) => one.getBoundingClientRect().y));
      const isOneLine = new Set(tops).size === 1;
      assert.deepEqual([tops.length, isOneLine], [4, viewport.width === 360]);
      assert.equal(await shown.evaluate('document.documentElement.scrollWidth <= innerWidth'), true);
      assert.equal(await suites.first().getAttribute('aria-current'), 'page');
      await shown.getByRole('link', { name: 'a suite whose name is longer than the window: failed' }).click();
      await shown.waitForURL(`**${ended[1]}`);
      const crumbs = shown.getByRole('navigation', { name: 'Breadcrumb' }).getByRole('link');
      await crumbs.filter({ hasText: 'Request for main' }).click();
      await shown.waitForURL('**/requests/*');
      await shown.context().close();
    }
  });

  test('has one row of header on a phone, whose menu opens without scripts, and a log that scrolls with the page', async () => {
    const signedIn = await browser.signIn(service.address, alice.credentials);
    const storageState = await signedIn.context().storageState();
    const viewport = { width: 360, height: 640 };
    for (const javaScriptEnabled of [true, false]) {
      const shown = await browser.open({ javaScriptEnabled, viewport, storageState });
      await shown.goto(`${service.address}/ui${failed.path}`);
      const header = shown.locator('header');
      const isLow = async () => ((await header.boundingBox())?.height ?? Infinity) < 64;
      assert.equal(await isLow(), true, 'closed');
      const dependencies = header.getByRole('link', { name: 'Dependencies' });
      assert.equal(await dependencies.isVisible(), false);
      await header.getByText('Menu').click();
      assert.equal(await isLow(), false, 'open');
      for (const name of ['Projects', 'Dependencies'])
        assert.ok(await header.getByRole('link', { name }).isVisible(), name);
      assert.ok(await header.getByRole('button', { name: 'Sign out' }).isVisible());
      const log = shown.locator(javaScriptEnabled ? '.log-view' : '.log-static');
      const [inside, outside] = await log.evaluate((one) => [one.scrollHeight, one.clientHeight]);
      assert.ok((inside ?? 0) <= (outside ?? 0) + 1, 'it does not scroll in itself');
      await shown.context().close();
    }
    await signedIn.context().close();
  });

  test('has a tab for each service, with how far it is and its log, and says on top which step failed', async () => {
    served = await runningBuild(alice, runner, {
      command: '',
      'steps[0][name]': 'migrate',
      'steps[0][command]': 'true',
      'steps[1][name]': 'test',
      'steps[1][command]': 'true',
      'services[0][name]': 'postgres',
      'services[0][image]': 'docker.io/library/postgres:17',
      'services[1][name]': 'redis',
      'services[1][image]': 'docker.io/library/redis:8',
    });
    const { claim } = served.task.order;
    const tell = (services: ServiceState[]) => runner.dispatch.services(runner.self, { claim, services });
    const tabs = async (): Promise<string> => {
      const { text } = await tab.get(`/ui${served.path}`);
      return (/<nav id="tabs".*?<\/nav>/s.exec(text)?.[0] ?? '').replaceAll(/<[^>]+>|\s+/g, ' ').replaceAll(/ +/g, ' ');
    };
    await tell([
      { name: 'postgres', state: 'ready', from: 0, ready: 900 },
      { name: 'redis', state: 'starting', from: 0 },
    ]);
    assert.match(await tabs(), /Details postgres ready redis starting/);
    const bytes = Buffer.from('Out of memory\n');
    await runner.dispatch.log(runner.self, { claim, offset: 0, bytes, service: 'redis' });
    await tell([
      { name: 'postgres', state: 'stopped', from: 0, ready: 900, to: 66_000, status: 0 },
      { name: 'redis', state: 'failed', from: 0, to: 1200, status: 137 },
    ]);
    await runner.dispatch.steps(runner.self, {
      claim,
      steps: [
        { name: 'migrate', state: 'passed', status: 0, from: 0, to: 2000, line: 1 },
        { name: 'test', state: 'failed', status: 2, from: 2000, to: 3000, line: 1 },
      ],
    });
    await served.task.exit(2);
    assert.match(await tabs(), /Details postgres stopped redis failed/);
    const { text } = await tab.get(`/ui${served.path}/services/redis`);
    const words = text.replaceAll(/<[^>]+>|\s+/g, ' ').replaceAll(/ +/g, ' ');
    assert.match(words, /The step test failed, with exit status 2 after \d/);
    assert.match(words, /failed never ready ran for [12] s exit status 137 .*Out of memory/);
  });

  test('says that files wait on the runner, until they have arrived before one’s eyes', async () => {
    const late = await runningBuild(alice, runner, {});
    await late.task.exit(0, { uploads: true });
    const shown = await browser.signIn(service.address, alice.credentials);
    await shown.goto(`${service.address}/ui${late.path}`);
    const said = shown.getByText('wait on its runner');
    await said.waitFor();
    const { claim } = late.task.order;
    assert.deepEqual(await runner.dispatch.uploaded(runner.self, { claim }), { taken: true });
    await said.waitFor({ state: 'detached' });
    await shown.context().close();
  });

  test('starts a finished build again from a step, without any script', async () => {
    const fields = ['install', 'test', 'publish'].flatMap((name, at) => [
      [`steps[${at}][name]`, name],
      [`steps[${at}][command]`, 'true'],
    ]);
    const build = await runningBuild(alice, runner, { command: '', ...(Object.fromEntries(fields) as object) });
    await build.task.exit(1);
    const shown = await browser.signIn(service.address, alice.credentials);
    const storageState = await shown.context().storageState();
    const plain = await browser.open({ javaScriptEnabled: false, storageState, viewport: { width: 360, height: 640 } });
    await plain.goto(`${service.address}/ui${build.path}`);
    await plain.getByText('From a step').click();
    const menu = plain.getByRole('form', { name: 'Run again from a step' });
    assert.deepEqual(await menu.getByRole('button').allInnerTexts(), ['test', 'publish']);
    assert.equal(await plain.evaluate('document.documentElement.scrollWidth <= innerWidth'), true);
    await menu.getByRole('button', { name: 'test' }).click();
    await plain.getByText('attempt 2').waitFor();
    const task = await runner.take('run_suite');
    assert.deepEqual(task.order.work.from, { step: 'test', build: String(build.id) }, 'nothing is kept');
    await task.exit(0);
    for (const one of [shown, plain]) await one.context().close();
    const restart = (step: string) => alice.post(`${build.path}/restart`, { from_step: step });
    assertWrongFields(await restart('no such step'), { from_step: 'invalid_format' });
    await restart('install');
    assert.equal((await runner.take('run_suite')).order.work.from, undefined, 'the first step is the beginning');
  });

  test('can be used by everybody, in every tab', async () => {
    const addresses = ['', '/tests', '/tests?filter=gauge', '/artifacts', '/details', '/details?compare=7'];
    await assertAccessible(
      (options) => browser.signIn(service.address, alice.credentials, options),
      [...addresses.map((below) => `${failed.path}${below}`), stepwise.path, `${served.path}/services/redis`].map(
        (path) => `${service.address}/ui${path}`,
      ),
    );
  });
});
