import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import type { BrowserContextOptions, Page } from 'playwright-core';
import { assertAccessible, violationsOn } from '../../support/accessibility.ts';
import { TestBrowser } from '../../support/browser.ts';
import { onOneDatabase } from '../../support/databases.ts';
import { ScriptedRunner } from '../../support/runner.ts';
import { held, runningBuild, type RunningBuild } from '../../support/running-build.ts';
import { Service } from '../../support/service.ts';
import type { User } from '../../support/user.ts';

describe('public projects and organisations in a real browser', () => {
  onOneDatabase((database) => {
    // What a browser does depends on no database.
    if (database.kind !== 'sqlite') return;

    const service = new Service(database, { streamPauseMs: 50, settings: { public_rate: '100000' } });
    const browser = new TestBrowser(database);
    let runner: ScriptedRunner;
    let owner: User;
    before(async () => {
      await service.start();
      runner = await ScriptedRunner.start(service.store);
      database.afterwards(() => runner.dispatch.close());
      owner = await service.user();
    });

    const complaints: string[] = [];
    const open = async (options: BrowserContextOptions = {}): Promise<Page> => {
      const page = await browser.open(options);
      page.on('pageerror', (error) => complaints.push(error.message));
      page.on('console', (message) => {
        if (message.type() === 'error' || message.type() === 'warning') complaints.push(message.text());
      });
      return page;
    };
    const publicBuild = async (): Promise<RunningBuild> => {
      const build = await runningBuild(owner, runner, { name: 'unit', command: 'make' });
      assert.equal((await owner.put(`/projects/${build.project.id}`, { public: 'true' })).status, 200);
      await build.task.writeLog('the first line\n');
      return build;
    };

    test('a visitor follows a build that runs, until the project is private', async () => {
      const build = await publicBuild();
      await using _held = held(build, runner);
      const { project, task } = build;
      const page = await open();
      await page.goto(`${service.address}/ui/sign-in`);
      await page.getByRole('link', { name: 'Public projects' }).click();
      await page.getByRole('link', { name: String(project.name) }).click();
      assert.equal(await page.getByRole('button').count(), 1, 'only the filter of branches');
      assert.equal(await page.getByRole('link', { name: 'Settings' }).count(), 0);
      await page.locator('.commit-when a').click();
      await page.getByRole('link', { name: 'unit' }).first().click();
      await page.getByText('the first line').first().waitFor();
      await task.writeLog('a line that comes later\n');
      await page.getByText('a line that comes later').first().waitFor();
      assert.equal(await page.getByRole('link', { name: 'Sign in' }).count(), 1);
      assert.equal(await page.getByRole('button', { name: /Cancel|Run again/ }).count(), 0);
      assert.deepEqual(complaints, []);

      assert.equal((await owner.put(`/projects/${project.id}`, { public: 'false' })).status, 200);
      await page.getByText('This page is no longer public.').waitFor();
      await task.writeLog('a private line\n');
      assert.equal(await page.getByText('a private line').count(), 0);
      await page.reload();
      await page.getByRole('heading', { name: 'Sign in' }).waitFor();
    });

    test('what visitors see breaks no rule of WCAG 2.2 AA, and is no wider than a phone', async () => {
      const build = await publicBuild();
      await using _held = held(build, runner);
      const { project, request, path } = build;
      const addresses = ['/ui/explore', `/ui/projects/${project.id}`, `/ui/projects/${project.id}/tests`]
        .concat(`/ui/projects/${project.id}/requests/${request.id}`)
        .concat(['', '/details'].map((tab) => `/ui${path}${tab}`));
      await assertAccessible(
        open,
        addresses.map((address) => `${service.address}${address}`),
      );
    });

    test('so do the pages of an organisation, with the menu of the header open', async () => {
      const { id } = (await owner.post('/organisations', { name: 'rockets', description: 'Fly' })).record;
      await owner.post(`/organisations/${id}/members`, { email: 'new@example.org', role: 'developer' });
      const variables = `/organisations/${id}/environment_variables`;
      const variable = (await owner.post(variables, { name: 'SHARED', content: 'x' })).record;
      const registry = { host: 'registry.example.org', username: 'robot', password: 'x', organisation_id: id };
      assert.equal((await owner.post('/registries', registry)).status, 201);
      const at = `${service.address}/ui/organisations`;
      const signIn = (options?: BrowserContextOptions): Promise<Page> =>
        browser.signIn(service.address, owner.credentials, options);
      const one = `${at}/rockets`;
      await assertAccessible(signIn, [
        at,
        one,
        `${one}/variables/${variable.id}`,
        `${service.address}/ui/projects/new?organisation=rockets`,
      ]);
      const page = await signIn({ bypassCSP: true, viewport: { width: 360, height: 800 } });
      await page.goto(one);
      await page.getByText('Menu').click();
      await page.locator('.switch summary').click();
      await page.getByRole('link', { name: 'Your dashboard' }).waitFor();
      assert.deepEqual(await violationsOn(page), []);
      await page.getByRole('link', { name: 'Your dashboard' }).click();
      await page.getByRole('heading', { name: 'Projects' }).waitFor();
    });
  });
});
