import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { assertAccessible } from '../../support/accessibility.ts';
import { TestBrowser } from '../../support/browser.ts';
import type { Record_ } from '../../support/client.ts';
import { onOneDatabase } from '../../support/databases.ts';
import { addArtifact, addBuild, addCommit } from '../../support/rows.ts';
import { describeServiceOnOne, Service } from '../../support/service.ts';
import { Tab } from '../../support/tab.ts';
import type { User } from '../../support/user.ts';

interface Built {
  project: Record_;
  suite: Record_;
  build: { id: bigint };
}

async function aBuild(service: Service, owner: User): Promise<Built> {
  const project = await owner.createProject();
  const suite = await owner.createSuite(project);
  const commit = await addCommit(service.store, project);
  const buildRequest = await owner.requestBuild(project);
  const over = { build_state: 'passed', started_at: 1n, finished_at: 2n, exit_status: 0 };
  return { project, suite, build: await addBuild(service.store, project, { commit, buildRequest, suite }, over) };
}

describeServiceOnOne('artifacts on the page of a build', (service) => {
  let alice: User;
  let tab: Tab;
  before(async () => {
    alice = await service.user();
    tab = new Tab(service);
    await tab.signIn(alice.credentials);
  });

  test('are listed as text, with links that download them', async () => {
    const { project, build } = await aBuild(service, alice);
    const page = `/ui/projects/${project.id}/builds/${build.id}/artifacts`;
    assert.match((await tab.get(page)).text, /No artifacts/);
    const markup = `<script>alert('1')</script>.html`;
    const file = await addArtifact(service.store, build, `dist/${markup}`, markup);
    for (let more = 0; more < 205; more += 1) await addArtifact(service.store, build, `log/${more}`);
    const { text } = await tab.get(page);
    assert.match(text, /206 files, 85[0-9] bytes/);
    assert.match(text, /6 more are in the archive/);
    assert.ok(!text.includes(markup));
    const address = `/ui/data/projects/${project.id}/builds/${build.id}/artifacts`;
    assert.ok(text.includes(`href="${address}/${file.id}"`) && text.includes(`href="${address}.zip"`));
    const headers = { 'sec-fetch-site': 'same-origin', 'sec-fetch-mode': 'navigate' };
    const download = await tab.get(`${address}/${file.id}`, headers);
    assert.deepEqual([download.text, download.headers['content-type']], [markup, 'text/plain; charset=utf-8']);
    assert.match(String(download.headers['content-disposition']), /^attachment; /);
    assert.match(String(download.headers['content-security-policy']), /sandbox/);
    assert.equal((await tab.get(`${address}.zip`, headers)).bytes.subarray(0, 2).toString(), 'PK');
    assert.equal((await tab.get(`${address}/${file.id}`, { 'sec-fetch-site': 'cross-site' })).status, 401);
    const bob = new Tab(service);
    await bob.signIn((await service.user()).credentials);
    assert.equal((await bob.get(`${address}/${file.id}`, headers)).status, 404);
  });

  test('are chosen in the form of the suite, a pattern a line', async () => {
    const { project, suite } = await aBuild(service, alice);
    const path = `/ui/projects/${project.id}/settings/suites/${suite.id}`;
    const save = async (artifacts: string) => {
      const page = await tab.get(path);
      const fields = { do: 'save', name: 'unit', command: 'make', 'artifacts[]': artifacts };
      return tab.submit(page, path, fields);
    };
    const kept = async (): Promise<unknown> =>
      (await alice.get(`/projects/${project.id}/suites/${suite.id}`)).record.artifacts;
    assert.equal((await save('dist\r\n\r\n  *.log \r\n')).status, 303);
    assert.deepEqual(await kept(), ['dist', '*.log']);
    assert.match((await tab.get(path)).text, />\s*dist\n\*\.log<\/textarea>/);
    const refused = await save('dist\n../out');
    assert.match(refused.text, /Patterns lead down from the workspace/);
    assert.match(refused.text, />\s*dist\n\.\.\/out<\/textarea>/);
    assert.deepEqual(await kept(), ['dist', '*.log']);
    assert.equal((await save('')).status, 303);
    assert.deepEqual(await kept(), []);
  });
});

describe('artifacts in a real browser', () => {
  onOneDatabase((database) => {
    // What a browser does depends on no database.
    if (database.kind !== 'sqlite') return;
    const service = new Service(database);
    const browser = new TestBrowser(database);
    before(() => service.start());

    test('can be reached by everybody, at every width, and are saved and not run', async () => {
      const alice = await service.user();
      const { project, suite, build } = await aBuild(service, alice);
      await addArtifact(service.store, build, `${'a-long-name-'.repeat(20)}/${'even-longer'.repeat(20)}.txt`);
      await addArtifact(service.store, build, 'index.html', '<script>document.title = "run"</script>');
      const page = `${service.address}/ui/projects/${project.id}/builds/${build.id}/artifacts`;
      const settings = `${service.address}/ui/projects/${project.id}/settings/suites/${suite.id}`;
      await assertAccessible(
        (options) => browser.signIn(service.address, alice.credentials, options),
        [page, settings],
      );
      const tab = await browser.signIn(service.address, alice.credentials, { viewport: { width: 1920, height: 900 } });
      await tab.goto(page);
      const downloads = tab.waitForEvent('download');
      await tab.getByRole('link', { name: 'index.html' }).click();
      const download = await downloads;
      assert.equal(download.suggestedFilename(), 'index.html');
      assert.notEqual(await tab.title(), 'run');
    });
  });
});
