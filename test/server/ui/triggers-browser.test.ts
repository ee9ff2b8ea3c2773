import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import type { BrowserContextOptions, Page } from 'playwright-core';
import { assertAccessible } from '../../support/accessibility.ts';
import { TestBrowser } from '../../support/browser.ts';
import type { Record_ } from '../../support/client.ts';
import { onOneDatabase } from '../../support/databases.ts';
import { addDelivery, addDeliveryAttempt } from '../../support/rows.ts';
import { Service } from '../../support/service.ts';
import { fromFork, trigger } from '../../support/triggered.ts';
import type { User } from '../../support/user.ts';

describe('triggers in a real browser', () => {
  onOneDatabase((database) => {
    // What a browser does depends on no database.
    if (database.kind !== 'sqlite') return;
    const service = new Service(database);
    const browser = new TestBrowser(database);
    let owner: User;
    let project: Record_;
    before(async () => {
      await service.start();
      owner = await service.user();
      project = await owner.createProject({ public_badge: 'true', fork_builds: 'approval', poll_interval: '3600' });
    });

    const signIn = (options?: BrowserContextOptions): Promise<Page> =>
      browser.signIn(service.address, owner.credentials, options);

    test('a hook is made, called, and its page tells what arrived while it is open', async () => {
      const page = await signIn();
      await page.goto(`${service.address}/ui/projects/${project.id}/settings/triggers/statuses`);
      await page.getByAltText('The badge as it is now').waitFor();
      const width = await page.evaluate(
        "document.querySelector('img').decode().then(() => document.querySelector('img').naturalWidth)",
      );
      assert.ok(Number(width) > 50, 'the badge is shown');
      await page.getByRole('link', { name: 'Triggers' }).click();
      const form = page.getByRole('form', { name: 'New hook' });
      await form.getByLabel('Provider').selectOption('generic');
      await form.getByLabel('Tags').uncheck();
      await form.getByRole('button', { name: 'Create hook' }).click();
      await page.getByRole('heading', { name: 'Hook created' }).waitFor();
      const [address, secret] = [
        await page.locator('#hook-url').innerText(),
        await page.locator('#hook-secret').innerText(),
      ];
      await page.getByRole('link', { name: 'Go on' }).click();
      await page.getByText('Nothing arrived yet.').waitFor();
      const headers = { authorization: `Bearer ${secret}` };
      const told = await service.api.post(new URL(address).pathname, { json: { ref: 'refs/heads/main' }, headers });
      assert.equal(told.status, 202, told.text);
      await page.locator('#deliveries').getByText('build requested').waitFor();
      await page.getByRole('link', { name: 'Build request' }).click();
      await page.getByText('pushed to').waitFor();
    });

    test('no page has anything that WCAG 2.2 AA forbids, nor is wider than a phone', async () => {
      const { store } = service;
      const target = await owner.createStatusTarget(project, { repository: `team/${'long-'.repeat(30)}` });
      const report = {
        ref: 'a'.repeat(40),
        context: `headrace/${'suite '.repeat(20)}`,
        build_state: 'passed',
        description: 'Passed after 3.0 s.',
        path: '/ui/',
      };
      const delivery = await addDelivery(store, target, { payload: JSON.stringify(report), state: 'failed' });
      await addDeliveryAttempt(store, delivery, { status: 500, answer: 'sorry' });
      await addDeliveryAttempt(store, delivery, { status: null, answer: '', error: 'the connection was refused' });
      const { record: hook } = await owner.post(`/projects/${project.id}/hooks`, { provider: 'generic' });
      for (const ref of ['refs/heads/main', 'refs/other/x']) {
        const headers = { authorization: `Bearer ${String(hook.secret)}` };
        await service.api.post(`/hooks/${hook.id}`, { json: { ref }, headers });
      }
      const { record: schedule } = await owner.post(`/projects/${project.id}/schedules`, { cron: '0 3 * * *' });
      const about = { ...fromFork, targetBranch: 'a-long-branch/'.repeat(12) };
      const { request } = await trigger(store, project, 'c'.repeat(40), about);
      const blank = await owner.createProject();
      const triggers = `/ui/projects/${project.id}/settings/triggers`;
      const paths = [
        ...['', '/schedules', '/statuses'].flatMap((below) => [
          `${triggers}${below}`,
          `/ui/projects/${blank.id}/settings/triggers${below}`,
        ]),
        `${triggers}/hooks/${hook.id}`,
        `${triggers}/hooks/${hook.id}/delete`,
        `${triggers}/schedules/${schedule.id}`,
        `${triggers}/schedules/${schedule.id}/delete`,
        `${triggers}/status_targets/${target.id}`,
        `${triggers}/status_targets/${target.id}/delete`,
        `/ui/projects/${project.id}/requests/${request?.id}`,
        `/ui/projects/${project.id}`,
      ];
      await assertAccessible(
        signIn,
        paths.map((path) => `${service.address}${path}`),
      );
    });
  });
});
