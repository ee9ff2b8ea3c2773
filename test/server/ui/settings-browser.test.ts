import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import type { BrowserContextOptions, Page } from 'playwright-core';
import { assertAccessible } from '../../support/accessibility.ts';
import { startBreakingProxy } from '../../support/breaking-proxy.ts';
import { TestBrowser } from '../../support/browser.ts';
import type { Record_ } from '../../support/client.ts';
import { compiling } from '../../support/compiling.ts';
import { onOneDatabase } from '../../support/databases.ts';
import { addCommit, addDelivery, addDeliveryAttempt, setDependencyState } from '../../support/rows.ts';
import { ScriptedRunner } from '../../support/runner.ts';
import { Service } from '../../support/service.ts';
import { archiveOf } from '../../support/software.ts';
import type { User } from '../../support/user.ts';
import { longestWait } from '../../support/pauses.ts';

describe('settings, deploys and dependencies in a real browser', () => {
  onOneDatabase((database) => {
    // What a browser does depends on no database.
    if (database.kind !== 'sqlite') return;
    const service = new Service(database);
    const browser = new TestBrowser(database);
    let owner: User;
    let project: Record_;
    let suite: Record_;
    let runner: ScriptedRunner;
    before(async () => {
      await service.start();
      owner = await service.user();
      project = await owner.createProject({ name: 'a-long-name-'.repeat(21) });
      suite = await owner.createSuite(project);
      runner = await ScriptedRunner.start(service.store);
      database.afterwards(() => runner.dispatch.close());
    });

    const signIn = (options?: BrowserContextOptions): Promise<Page> =>
      browser.signIn(service.address, owner.credentials, options);

    test('a variable is shown when asked for, and hidden again', async () => {
      const page = await signIn();
      await page.goto(`${service.address}/ui/projects/${project.id}/settings/suites/${suite.id}`);
      const form = page.getByRole('form', { name: 'New variable' });
      await form.getByLabel('Name').fill('API_TOKEN');
      await form.getByLabel('Content').fill('hush-hush-hush');
      await form.getByRole('button', { name: 'Add variable' }).click();
      await page.getByText('API_TOKEN').waitFor();
      assert.ok(!(await page.content()).includes('hush-hush'));
      await page.getByRole('button', { name: 'Show' }).click();
      await page.getByText('hush-hush-hush').waitFor();
      await page.getByRole('link', { name: 'Hide' }).click();
      await page.getByRole('button', { name: 'Show' }).waitFor();
      assert.ok(!(await page.content()).includes('hush-hush'));
    });

    /** What stands beside the bar of an upload, as it changes: it may be there for a moment only. */
    const toldOn = async (page: Page): Promise<unknown[]> => {
      const values: unknown[] = [];
      await page.exposeFunction('tell', (value: unknown) => values.push(value));
      await page.evaluate(`{
        const told = document.querySelector('#upload-told');
        new MutationObserver(() => tell(told.textContent)).observe(told, { childList: true, subtree: true });
      }`);
      return values;
    };

    test('an upload shows how far it has come, says what is wrong, and leads to the compile, live', async () => {
      const dependency = await owner.createDependency({ name: 'libx' });
      const page = await signIn();
      await page.goto(`${service.address}/ui/dependencies/${dependency.id}`);
      const file = page.getByLabel('Archive');
      const send = page.getByRole('button', { name: 'Upload source' });
      await file.setInputFiles({ name: 'x', mimeType: 'text/plain', buffer: Buffer.from('no archive') });
      await send.click();
      await page.getByText('This file is neither a tar nor a zip archive.').waitFor();

      const values = await toldOn(page);
      const archive = await archiveOf({ noise: 'x'.repeat(1000) }, 'tar');
      await file.setInputFiles({ name: 'x.tar', mimeType: 'application/x-tar', buffer: archive });
      await send.click();
      await page.getByText('Uploaded. It is compiled next.').waitFor();
      assert.ok(values.includes('Starting…') && values.includes('Sent. It is being stored…'), String(values));
      const task = await runner.take('compile_dependency');
      await task.writeLog('checking for a compiler\n');
      await page.getByText('checking for a compiler').waitFor();
      await page.locator('#dependency-facts').getByText('compiling').waitFor();
      await task.finish({ kind: 'uncompilable' });
      await page.locator('#dependency-facts').getByText('compile failed').waitFor();
    });

    /** The page of a new dependency, over connections that break, with an archive of three megabytes chosen. */
    const overBreaking = async (name: string) => {
      const proxy = await startBreakingProxy(service.address);
      database.afterwards(() => proxy.close());
      const dependency = await owner.createDependency({ name });
      const page = await browser.signIn(proxy.address, owner.credentials);
      await page.goto(`${proxy.address}/ui/dependencies/${dependency.id}`);
      const archive = await archiveOf({ noise: 'x'.repeat(3_000_000) }, 'tar');
      const chosen = { name: 'x.tar', mimeType: 'application/x-tar', buffer: archive };
      await page.getByLabel('Archive').setInputFiles(chosen);
      const offsets: number[] = [];
      page.on('request', (request) => {
        if (request.method() === 'PATCH') offsets.push(Number(request.headers()['upload-offset']));
      });
      return { dependency, page, proxy, archive, offsets };
    };

    test('an upload whose connection breaks goes on where it was', async () => {
      const { dependency, page, proxy, archive, offsets } = await overBreaking('goes on');
      const values = await toldOn(page);
      proxy.breaksAfter(1_200_000);
      await page.getByRole('button', { name: 'Upload source' }).click();
      await page.getByText('Uploaded. It is compiled next.').waitFor();
      assert.ok(values.includes('The connection broke. Going on…'), String(values));
      assert.ok(offsets.length >= 3, String(offsets));
      for (const [at, offset] of offsets.entries())
        assert.ok(at === 0 || offset > (offsets[at - 1] ?? 0), String(offsets));
      const task = await runner.take('compile_dependency');
      assert.equal(task.order.work.archive.size, archive.length);
      await task.finish({ kind: 'uncompilable' });
      assert.equal((await owner.get(`/dependencies/${dependency.id}`)).record.archive_file_size, archive.length);
    });

    test('an upload whose connection breaks again and again says how far it came, and can be sent again', async () => {
      const { page, proxy, offsets } = await overBreaking('breaks');
      proxy.breaksAfter(1_200_000);
      // From the second on, nothing of it arrives any more.
      await page.route('**/uploads/*', (route) => {
        const isMore = route.request().method() === 'PATCH' && offsets.length > 1;
        return isMore ? route.abort('connectionreset') : route.continue();
      });
      const send = page.getByRole('button', { name: 'Upload source' });
      await send.click();
      const told = page.getByText(/^The connection broke 5 times/);
      await told.waitFor({ timeout: longestWait }); // it waits longer and longer between them
      assert.equal(offsets.length, 6);
      const [first, second = 0] = offsets;
      assert.deepEqual([first, new Set(offsets.slice(1))], [0, new Set([second])]);
      const far = `${(second / 1e6).toFixed(1)} of 3.0 MB`;
      assert.equal(await told.textContent(), `The connection broke 5 times after ${far} had arrived. Try again.`);
      assert.notEqual(second, 0);
      await page.unroute('**/uploads/*');
      proxy.breaksAfter(Infinity);
      await send.click();
      await page.getByText('Uploaded. It is compiled next.').waitFor();
      await (await runner.take('compile_dependency')).finish({ kind: 'uncompilable' });
    });

    test('no page has anything that WCAG 2.2 AA forbids, nor is wider than a phone', async () => {
      const { store } = service;
      const other = await service.user();
      const [shared, strategy] = [
        await other.createDependency({ name: 'shared one' }),
        await owner.createStrategy(project),
      ];
      await setDependencyState(store, shared, 'shared');
      const rule = { subject: 'commit.message', operator: 'contains', value: 'x' };
      await owner.post(`/projects/${project.id}/suites/${suite.id}/rules`, rule);
      await owner.post(`/projects/${project.id}/suites/${suite.id}/dependencies`, { dependency_id: shared.id });
      const notification = await owner.createNotification(project);
      const delivery = await addDelivery(store, notification);
      await addDeliveryAttempt(store, delivery, { status: 500, answer: 'sorry' });
      await addDeliveryAttempt(store, delivery, { status: null, answer: '', error: 'refused' });
      await owner.invite(project, other);
      const commit = await addCommit(store, project, { build_state: 'passed' });
      const { record: deploy } = await owner.post(`/projects/${project.id}/deploys`, {
        deploy_strategy_id: strategy.id,
        commit_id: commit.id,
      });
      const push = await runner.take('push_deploy');
      await push.writeLog('pushing\n');
      const { dependency, task } = await compiling(owner, runner, { name: 'lua' });
      await task.writeLog('making\n');
      const blank = await owner.createProject();
      const [variable] = (await owner.get(`/projects/${project.id}/suites/${suite.id}/environment_variables`)).list;
      const settings = `/ui/projects/${project.id}/settings`;
      const paths = [
        settings,
        `${settings}/delete`,
        `${settings}/suites`,
        `${settings}/suites/${suite.id}`,
        `${settings}/suites/${suite.id}?show=${variable?.id}`,
        `${settings}/suites/${suite.id}/variables/${variable?.id}`,
        `${settings}/deploys`,
        `${settings}/deploys/${strategy.id}`,
        `${settings}/notifications`,
        `${settings}/notifications/${notification.id}`,
        `${settings}/members`,
        `/ui/projects/${blank.id}/settings/suites`,
        `/ui/projects/${blank.id}/settings/deploys`,
        `/ui/projects/${blank.id}/settings/notifications`,
        `/ui/projects/${blank.id}/settings/members`,
        `/ui/projects/${project.id}/deploys`,
        `/ui/projects/${blank.id}/deploys`,
        `/ui/projects/${project.id}/deploys/${deploy.id}`,
        '/ui/dependencies',
        '/ui/dependencies/new',
        `/ui/dependencies/${dependency.id}`,
        `/ui/dependencies/${dependency.id}/delete`,
        `/ui/dependencies/${shared.id}`,
        '/ui/marketplace',
        '/ui/operations',
      ];
      await assertAccessible(
        signIn,
        paths.map((path) => `${service.address}${path}`),
      );
    });
  });
});
