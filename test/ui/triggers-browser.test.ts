import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { before, describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { fillInSignIn, TestBrowser } from '../support/browser.ts';
import type { Record_ } from '../support/client.ts';
import { onEveryDatabase } from '../support/databases.ts';
import { addDelivery, addDeliveryAttempt } from '../support/rows.ts';
import { Service } from '../support/service.ts';
import { fromFork, trigger } from '../support/triggered.ts';
import type { User } from '../support/user.ts';

const axeSource = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const rules = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'];

describe('triggers in a real browser', () => {
  onEveryDatabase((database) => {
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

    const signIn = async (options: Parameters<TestBrowser['open']>[0] = {}): Promise<Page> => {
      const page = await browser.open(options);
      page.on('pageerror', (error) => assert.fail(error));
      await page.goto(`${service.address}/ui/account`);
      await fillInSignIn(page, owner.credentials);
      await page.waitForURL('**/ui/account');
      return page;
    };

    test('a hook is made, called, and its page tells what arrived while it is open', async () => {
      const page = await signIn();
      await page.goto(`${service.address}/ui/projects/${project.id}/settings/triggers`);
      await page.getByAltText('The badge as it is now').waitFor();
      const width = await page.evaluate(
        "document.querySelector('img').decode().then(() => document.querySelector('img').naturalWidth)",
      );
      assert.ok(Number(width) > 50, 'the badge is shown');
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
        triggers,
        `/ui/projects/${blank.id}/settings/triggers`,
        `${triggers}/hooks/${hook.id}`,
        `${triggers}/hooks/${hook.id}/delete`,
        `${triggers}/schedules/${schedule.id}`,
        `${triggers}/schedules/${schedule.id}/delete`,
        `${triggers}/status_targets/${target.id}`,
        `${triggers}/status_targets/${target.id}/delete`,
        `/ui/projects/${project.id}/requests/${request?.id}`,
        `/ui/projects/${project.id}`,
      ];
      const found: string[] = [];
      for (const [colorScheme, width] of [
        ['light', 1280],
        ['dark', 360],
      ] as const) {
        const page = await signIn({ colorScheme, viewport: { width, height: 800 }, bypassCSP: true });
        for (const path of paths) {
          const answer = await page.goto(`${service.address}${path}`);
          assert.equal(answer?.status(), 200, path);
          await page.evaluate(axeSource);
          const violations = await page.evaluate(async (values) => {
            const axe = Reflect.get(globalThis, 'axe') as { run(o: object): Promise<{ violations: Violation[] }> };
            const { violations: all } = await axe.run({ runOnly: { type: 'tag', values } });
            return all.map(({ id, nodes }) => `${id} ${nodes.map(({ html }) => html).join(' | ')}`);
          }, rules);
          found.push(...violations.map((one) => `${colorScheme} ${path}: ${one}`));
          const tooWide = Number(await page.evaluate('document.documentElement.scrollWidth - innerWidth'));
          if (tooWide > 0) found.push(`${path} is ${tooWide} px too wide at ${width}`);
        }
      }
      assert.deepEqual(found, []);
    });
  });
});

interface Violation {
  id: string;
  nodes: { html: string }[];
}
