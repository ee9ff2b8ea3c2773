import { before, describe, test } from 'node:test';
import type { BrowserContextOptions, Page } from 'playwright-core';
import { assertAccessible } from '../../support/accessibility.ts';
import { TestBrowser } from '../../support/browser.ts';
import type { Record_ } from '../../support/client.ts';
import { onOneDatabase } from '../../support/databases.ts';
import { Service } from '../../support/service.ts';
import type { User } from '../../support/user.ts';

describe('parameters in a real browser', () => {
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
      project = await owner.createProject();
      for (const name of ['unit', 'lint']) await owner.createSuite(project, { name });
    });
    const signIn = (options?: BrowserContextOptions): Promise<Page> =>
      browser.signIn(service.address, owner.credentials, options);

    test('rows are added and the answers run a build; no page is wider than a phone', async () => {
      const page = await signIn();
      const at = `${service.address}/ui/projects/${project.id}`;
      await page.goto(`${at}/settings/parameters`);
      const first = page.getByRole('group', { name: 'Parameter 1' });
      await first.getByLabel('Name of the variable').fill('STAGE');
      await first.getByLabel('Type').selectOption('choice');
      await first.getByLabel('Options').fill('test\nlive');
      await first.getByLabel('Needs a value').selectOption('true');
      await first.getByLabel('Description').fill(`Where it goes: ${'long '.repeat(40)}`);
      await page.getByRole('button', { name: 'Add parameter' }).click();
      await page
        .getByRole('group', { name: 'Parameter 2' })
        .getByLabel('Name of the variable')
        .fill('A_LONG_NAME_'.repeat(6));
      await page.getByRole('button', { name: 'Save' }).click();
      await page.getByRole('status').filter({ hasText: /saved/i }).waitFor();
      await page.getByRole('link', { name: 'Commits' }).click();
      await page.getByRole('link', { name: 'Run', exact: true }).click();
      await page.getByLabel('Branch, tag or commit').fill('main');
      await page.getByRole('button', { name: 'Run build' }).click();
      await page.getByText('STAGE is missing.').waitFor();
      await page.getByLabel('STAGE').selectOption('live');
      await page.getByRole('button', { name: 'Run build' }).click();
      await page.getByText('live').first().waitFor();
      await assertAccessible(signIn, [`${at}/run`, `${at}/settings/parameters`, at]);
    });
  });
});
