import assert from 'node:assert/strict';
import { test } from 'node:test';
import { violationsOn } from '../../support/axe.ts';
import { TestBrowser } from '../../support/browser.ts';
import { describeServiceOnOne } from '../../support/service.ts';
import { ci, seen } from '../../support/workflows.ts';

describeServiceOnOne('the import of another CI in a browser', (service, database) => {
  const browser = new TestBrowser(database);

  test('leads from the set-up page to suites, on a phone and by its labels, in light and in dark', async () => {
    const alice = await service.user();
    const project = await alice.createProject({ name: 'weir' });
    const long = { path: `.github/workflows/${'long-'.repeat(40)}.yml`, problem: 'is too large.' };
    await seen(service, project, [ci, long]);
    const page = await browser.signIn(service.address, alice.credentials, {
      viewport: { width: 360, height: 740 },
      colorScheme: 'dark',
    });
    const setup = `${service.address}/ui/projects/${project.id}/setup`;
    const wrong: string[] = [];
    const check = async (): Promise<void> => {
      for (const colorScheme of ['dark', 'light'] as const) {
        await page.emulateMedia({ colorScheme });
        for (const found of await violationsOn(page)) wrong.push(`${page.url()} in ${colorScheme}: ${found}`);
      }
      const width = Number(await page.evaluate('document.documentElement.scrollWidth'));
      if (width > 360) wrong.push(`${page.url()} is ${width} px wide`);
    };
    await page.goto(setup);
    await check();
    await page.getByRole('button', { name: 'Import', exact: true }).click();
    await page.getByRole('heading', { name: 'Left out' }).waitFor();
    await page.getByText('some/action@v1').first().waitFor();
    await check();
    const file = page.getByLabel('File');
    const shown = await file.inputValue();
    await file.fill(`${shown}\n[[suites]]\nnme = "x"\n`);
    await page.getByRole('button', { name: 'Import these suites' }).click();
    await page
      .getByRole('alert')
      .filter({ hasText: /headrace.toml:\d+: .*nme/ })
      .waitFor();
    await check();
    await file.fill(shown.replace('name = "test"', 'name = "unit"'));
    await page.getByRole('button', { name: 'Import these suites' }).click();
    await page.waitForURL('**/settings/suites?done=added');
    await page.getByRole('link', { name: 'unit' }).first().waitFor();
    assert.deepEqual(wrong, []);
  });
});
