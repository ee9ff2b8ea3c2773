import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { before, test } from 'node:test';
import type { BrowserContextOptions, Page } from 'playwright-core';
import { violationsOn } from '../../support/axe.ts';
import { fillInSignIn, TestBrowser } from '../../support/browser.ts';
import { describeServiceOnOne } from '../../support/service.ts';
import { Stage } from '../../support/stage.ts';
import type { User } from '../../support/user.ts';

describeServiceOnOne(
  'pages in a browser',
  (service, database) => {
    const browser = new TestBrowser(database);
    let stage: Stage;
    let alice: User;
    before(async () => {
      stage = await Stage.open(service);
      database.afterwards(() => stage.leave());
      alice = await service.user();
    });

    const complaints: string[] = [];
    const open = async (options: BrowserContextOptions = {}, user = alice): Promise<Page> => {
      const page = await browser.open(options);
      page.on('console', (message) => {
        if (message.type() === 'error' || message.type() === 'warning') complaints.push(message.text());
      });
      page.on('pageerror', (error) => complaints.push(error.message));
      await page.goto(`${service.address}/ui/sign-in`);
      await fillInSignIn(page, user.credentials);
      await page.getByRole('heading', { name: 'Projects' }).waitFor();
      return page;
    };
    const state = (page: Page, word: string): Promise<void> =>
      page.locator('#request .state').first().filter({ hasText: word }).waitFor();

    test('from nothing to a build that passes before one’s eyes', async () => {
      complaints.length = 0;
      const newcomer = await service.user();
      const page = await open({ permissions: ['clipboard-read', 'clipboard-write'] }, newcomer);
      await page.getByText('No projects yet').waitFor();
      await page.getByRole('link', { name: 'New project' }).click();
      await page.getByLabel('Name').fill('first one');
      await page.getByLabel('Repository address').fill('git@example.org:team/app.git');
      await page.getByLabel('Description').fill('what it is for');
      await page.getByRole('button', { name: 'Create project' }).click();
      await page.getByRole('button', { name: 'Copy' }).click();
      await page.getByRole('button', { name: 'Copied' }).waitFor();
      assert.match(String(await page.evaluate('navigator.clipboard.readText()')), /^ssh-ed25519 AAAA/);
      await page.getByRole('button', { name: 'Check connection' }).click();
      await page.getByText('Connected. The project’s key can read the repository.').waitFor();
      await page.getByText('The repository holds Makefile').waitFor();
      assert.equal(await page.getByLabel('Command').inputValue(), 'make test');
      await page.getByLabel('Command').fill('say one, say two, exit 0');
      await page.getByRole('button', { name: 'Create suite and run' }).click();
      await page.waitForURL('**/requests/*');
      // Nobody loads the page again.
      await state(page, 'passed');
      await page.locator('.build', { hasText: 'test' }).getByText('two').waitFor();
      assert.match(await page.title(), /^passed: /);
      assert.match(String(await page.locator('link[rel=icon]').getAttribute('href')), /icon-good/);
      assert.deepEqual(complaints, []);
    });

    test('a request can be cancelled, run again, and its failures alone; the page follows', async () => {
      const project = await alice.createProject();
      await alice.createSuite(project, { name: 'good', command: 'say fine, exit 0' });
      await alice.createSuite(project, { name: 'moody', command: 'say at it, hang / exit 1 / exit 0' });
      const page = await open();
      const [dashboard] = [await page.context().newPage()];
      await dashboard.goto(`${service.address}/ui/`);
      await page.goto(`${service.address}/ui/projects/${project.id}`);
      await page.getByLabel('Branch, tag or commit').fill('main');
      await page.getByRole('button', { name: 'Run build' }).click();
      const suite = (name: string, word: string): Promise<void> =>
        page.locator('.build', { hasText: name }).locator('.state', { hasText: word }).waitFor();
      await suite('good', 'passed');
      await suite('moody', 'running');
      await page.locator('.build', { hasText: 'moody' }).getByText('at it').waitFor();
      await dashboard.locator(`#project-${project.id} .state`, { hasText: 'building' }).waitFor();
      await page.getByRole('button', { name: 'Cancel' }).click();
      await page.getByText('Running jobs are being stopped').waitFor();
      await suite('moody', 'cancelled');
      await page.getByRole('button', { name: 'Run failed again' }).click();
      await suite('moody', 'failed');
      await state(page, 'failed');
      await page.locator('.build', { hasText: 'moody' }).getByRole('link', { name: 'Attempt 1: cancelled' }).waitFor();
      await page.getByRole('button', { name: 'Run again', exact: true }).click();
      await suite('moody', 'passed');
      await state(page, 'passed');
      await dashboard.locator(`#project-${project.id} .state`, { hasText: 'passed' }).waitFor();
      await page.locator('.build', { hasText: 'good' }).getByRole('link', { name: 'good' }).click();
      await page.getByRole('heading', { name: 'good attempt 2' }).waitFor();
      const [saved] = await Promise.all([
        page.waitForEvent('download'),
        page.getByRole('link', { name: 'Download log' }).click(),
      ]);
      assert.equal(readFileSync(await saved.path(), 'utf8'), 'fine\n');
    });

    test('a user who is signed out elsewhere is told so; typed text stays while a page updates itself', async () => {
      const project = await alice.createProject();
      await alice.createSuite(project, { command: 'exit 0' });
      const page = await open();
      await page.goto(`${service.address}/ui/projects/${project.id}`);
      const field = page.getByLabel('Branch, tag or commit');
      await field.fill('half a na');
      await alice.requestBuild(project, 'main');
      await page.locator('.commit .state', { hasText: 'passed' }).waitFor();
      assert.equal(await field.inputValue(), 'half a na');
      const other = await page.context().newPage();
      await other.goto(`${service.address}/ui/`);
      await other.getByRole('button', { name: 'Sign out' }).click();
      await page.getByRole('status').filter({ hasText: 'You are signed out' }).waitFor();
    });

    test('everything works without scripts, the filter of the dashboard included', async () => {
      const project = await alice.createProject({ name: 'scriptless' });
      await alice.createProject({ name: 'another' });
      await alice.createSuite(project, { name: 'check', command: 'hang' });
      const page = await open({ javaScriptEnabled: false });
      await page.getByLabel('Filter').fill('script');
      await page.getByLabel('Filter').press('Enter');
      assert.equal(await page.getByRole('link', { name: 'another' }).count(), 0);
      await page.getByRole('link', { name: 'scriptless' }).click();
      await page.getByRole('button', { name: 'Run build' }).click();
      await page.getByLabel('Branch, tag or commit').fill('no..name');
      await page.getByRole('button', { name: 'Run build' }).click();
      await page.getByText('This cannot be the name of a branch, a tag or a commit.').waitFor();
      assert.equal(await page.getByLabel('Branch, tag or commit').inputValue(), 'no..name');
      await page.getByLabel('Branch, tag or commit').fill('main');
      await page.getByRole('button', { name: 'Run build' }).click();
      await page.getByRole('button', { name: 'Cancel' }).click();
      await page.getByText('Running jobs are being stopped').waitFor();
    });

    test('the filter of the dashboard is in the address while somebody types, and a shared address shows the same', async () => {
      const own = await service.user();
      for (const name of ['harbour', 'harvest', 'lock']) await own.createProject({ name });
      const page = await open({}, own);
      const shown = page.locator('.project:visible h2');
      await page.getByLabel('Filter').fill('HAR');
      await page.waitForURL(/[?&]filter=HAR$/);
      assert.deepEqual(await shown.allInnerTexts(), ['harbour', 'harvest']);
      await page.reload();
      assert.deepEqual(await shown.allInnerTexts(), ['harbour', 'harvest']);
      assert.equal(await page.getByLabel('Filter').inputValue(), 'HAR');
      // What the loaded page does not have is loaded.
      await page.getByLabel('Filter').fill('');
      await page.locator('.project', { hasText: 'lock' }).waitFor();
      assert.equal(await shown.count(), 3);
    });

    test('no page breaks a rule of axe-core, in light and in dark, and all fit a narrow phone', async () => {
      complaints.length = 0;
      const project = await alice.createProject({ name: 'W'.repeat(255) });
      const suite = await alice.createSuite(project, { name: 'check', command: 'say x, exit 1' });
      const left = await alice.createSuite(project, { name: 'left out' });
      const rule = { subject: 'commit.branches', operator: 'equals', value: 'v'.repeat(300) };
      await alice.post(`/projects/${project.id}/suites/${left.id}/rules`, rule);
      await alice.createStrategy(project);
      const request = await alice.requestBuild(project, 'main');
      const page = await open({ colorScheme: 'dark', viewport: { width: 360, height: 740 } });
      await page.goto(`${service.address}/ui/projects/${project.id}/requests/${request.id}`);
      await state(page, 'failed');
      const commits = (await alice.get(`/projects/${project.id}/commits`)).list;
      const builds = (await alice.get(`/projects/${project.id}/commits/${commits[0]?.id}/builds`)).list;
      const own = builds.find((build) => build.suite_id === suite.id);
      const root = `/ui/projects/${project.id}`;
      const paths = ['/ui/', '/ui/projects/new', `${root}/setup`, root, `${root}/requests/${request.id}`];
      paths.push(`${root}/commits/${commits[0]?.id}`, `${root}/builds/${own?.id}`, '/ui/applications', '/ui/account');
      paths.push('/ui/account/tokens', '/ui/account/tokens/new', '/ui/account/delete');
      const wrong: string[] = [];
      for (const path of paths) {
        await page.emulateMedia({ colorScheme: 'dark' });
        await page.goto(`${service.address}${path}`);
        for (const found of await violationsOn(page)) wrong.push(`${path} in dark: ${found}`);
        const width = Number(await page.evaluate('document.documentElement.scrollWidth'));
        if (width > 360) wrong.push(`${path} is ${width} px wide`);
        await page.emulateMedia({ colorScheme: 'light' });
        for (const found of await violationsOn(page)) wrong.push(`${path} in light: ${found}`);
      }
      assert.deepEqual(wrong, []);
      assert.deepEqual(complaints, []);
    });
  },
  { streamPauseMs: 300 },
);
