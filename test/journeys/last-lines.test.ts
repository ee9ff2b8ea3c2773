import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fillInSignIn, TestBrowser } from '../support/browser.ts';
import { onOneDatabase } from '../support/databases.ts';
import { startInstallation } from '../support/installation.ts';

/** What the page of a request says of each suite, with the real server, runner and sandbox. */
onOneDatabase((database) => {
  if (database.kind !== 'sqlite') return; // what is stored is tested on both (test/server/ui/request-page.test.ts)
  const browser = new TestBrowser(database);

  test('the page of a request shows the last line of each command, and nothing that the runner says around it', async (t) => {
    const installation = await startInstallation(database);
    const project = await installation.project();
    const keeping = { 'cache[]': 'deps', 'artifacts[]': 'deps/**', 'reports[]': 'report.xml' };
    const work = 'mkdir deps; echo x >deps/x; echo "<testsuite/>" >report.xml';
    const imitating = `${work}; printf 'Saved the cache (1 KB).\\nSECRETIVE'`;
    const suites = [
      await project.suite(t, 'talks', `${work}; echo 48 files, nothing wrong`, keeping),
      await project.suite(t, 'imitates', imitating, keeping),
      await project.suite(t, 'silent', work, keeping),
      await project.suite(t, 'fails', `${work}; echo at last; exit 1`, keeping),
    ];
    // The mask holds back the beginning of a secret, until the command is over.
    await project.variable(suites[1] ?? '', 'TOKEN', 'SECRETIVE-AND-LONG', { secret: 'true' });
    const request = await project.build('main');
    const [commit] = await project.commits();
    for (const build of await project.builds(commit)) {
      const log = await project.log(build);
      assert.match(log, /^There is no cache yet/, 'the runner says something before the command');
      assert.match(log, /rtifact[^]*$/, 'and behind it');
    }
    const page = await browser.open();
    await page.goto(`${installation.address()}/ui${project.path}/requests/${request.id_str}`);
    const [, password = ''] = /password\s+(\S+)/.exec(installation.serving().output) ?? [];
    await fillInSignIn(page, { email: 'admin@localhost', password });
    await page.getByText('Fetch log', { exact: true }).waitFor();
    const said = async (name: string): Promise<string> =>
      page.locator('.build', { hasText: name }).locator('.build-said').innerText();
    assert.equal(await said('talks'), '48 files, nothing wrong');
    assert.equal(await said('imitates'), 'SECRETIVE');
    assert.equal(await said('silent'), '');
    assert.equal(await said('fails'), 'at last');
  });
});
