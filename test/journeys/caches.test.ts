import assert from 'node:assert/strict';
import { before, test, type TestContext } from 'node:test';
import { onEveryDatabase } from '../support/databases.ts';
import { startInstallation, type Build, type Installation, type Item, type Project } from '../support/installation.ts';

/** What passed builds leave for the next one, with the real server, runner and sandbox. */
onEveryDatabase((database) => {
  let installation: Installation;
  let project: Project;
  before(async () => {
    installation = await startInstallation(database);
    project = await installation.project();
  });

  /** A suite that keeps these paths. */
  const cached = async (t: TestContext, command: string, ...paths: string[]): Promise<string> => {
    const suite = await project.suite(t, `cached ${Math.random()}`, command);
    await project.api().put(`${project.path}/suites/${suite}`, { 'cache[]': paths.join('\n') });
    return suite;
  };

  /** Builds a new commit of a branch, and answers the suite's build and what it said. */
  const built = async (suite: string, branch = 'main'): Promise<{ build: Build | undefined; log: string }> => {
    const sha = await project.repository.commit({ on: branch });
    await project.build(branch);
    const commit = (await project.commits()).find(({ ref }) => ref === sha);
    const build = (await project.builds(commit)).find(({ suite_id_str }) => suite_id_str === suite);
    return { build, log: await project.log(build) };
  };
  const caches = (): Promise<Item[]> => project.api().get(`${project.path}/caches`);

  test('the next build of the suite finds what a passed one left, in the workspace and at home', async (t) => {
    const counting =
      'mkdir -p deps/a ~/.tool; echo x >>deps/a/n; echo y >>~/.tool/n; wc -l <deps/a/n; wc -l <~/.tool/n';
    const suite = await cached(t, counting, 'deps', '~/.tool');
    const first = await built(suite);
    assert.equal(first.build?.build_state, 'passed', first.log);
    assert.match(first.log, /^There is no cache yet\.\n1\n1\nSaved the cache \(1 KB\)\.\n$/);
    assert.match((await built(suite)).log, /^Restored the cache of main \(1 KB\)\.\n2\n2\nSaved the cache/);
    await project.command(suite, 'wc -l <deps/a/n; exit 0');
    assert.match((await built(suite)).log, /^Restored the cache of main \(1 KB\)\.\n2\nThe cache is unchanged\.\n$/);
    const [cache] = (await caches()).filter(({ suite_id_str }) => suite_id_str === suite);
    assert.equal(cache?.branch, 'main');
    assert.equal(cache.size, 12); // 4 bytes in its first layer, 8 in its second
  });
});
