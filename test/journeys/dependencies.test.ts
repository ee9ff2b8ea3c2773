import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { onEveryDatabase } from '../support/databases.ts';
import { startInstallation, type Installation, type Project } from '../support/installation.ts';
import { archiveOf, dependenciesOf, greeter, kinds } from '../support/software.ts';

/** Software from its source archive into suites, with the real server, runner and sandbox. */
onEveryDatabase((database) => {
  let installation: Installation;
  let project: Project;
  let dependencies: ReturnType<typeof dependenciesOf>;
  before(async () => {
    installation = await startInstallation(database);
    project = await installation.project();
    dependencies = dependenciesOf(() => installation.api());
  });

  /** Builds the newest commit with one suite, and answers its build and what it said. */
  const buildOf = async (suite: string, message: string) => {
    await project.repository.commit({ message });
    await project.build('main');
    const [commit] = await project.commits();
    const build = (await project.builds(commit)).find(({ suite_id_str }) => suite_id_str === suite);
    return { build, log: await project.log(build) };
  };

  test('software of every kind of archive is compiled by its own command and used by a suite', async (t) => {
    const suite = await project.suite(t, 'greets', kinds.map((kind) => `/opt/${kind}/bin/greet ${kind}`).join(' && '));
    for (const kind of kinds) {
      const prefix = `/opt/${kind}`;
      const command = `echo "making $(basename "$PWD")" && make install PREFIX=${prefix}`;
      const sources = Object.fromEntries(Object.entries(greeter).map(([name, text]) => [`greet-1.0/${name}`, text]));
      const fields = { name: kind, command, prefix, source: 'greet-1.0' };
      const dependency = await dependencies.compile(fields, await archiveOf(sources, kind));
      const log = await dependencies.log(dependency);
      assert.equal(dependency.marketplace_state, 'compiled', log);
      assert.match(log, /^Unpacking the archive \(.*making greet-1\.0\n.*Compiled\.\n$/s);
      await project.attach(suite, dependency);
    }
    const { build, log } = await buildOf(suite, 'Greet');
    assert.equal(log, kinds.map((kind) => `hello, ${kind}\n`).join(''));
    assert.equal(build?.build_state, 'passed');
  });
});
