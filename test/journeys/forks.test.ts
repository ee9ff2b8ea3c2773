import assert from 'node:assert/strict';
import { appendFile } from 'node:fs/promises';
import { join } from 'node:path';
import { before, test, type TestContext } from 'node:test';
import { onOneDatabase } from '../support/databases.ts';
import { startInstallation, type Installation, type Project } from '../support/installation.ts';
import { createRepository, type NewCommit } from '../support/repository.ts';

/** What the build of a stranger's commit finds, with the real server, runner and sandbox. */
onOneDatabase((database) => {
  let installation: Installation;
  let project: Project;
  before(async () => {
    installation = await startInstallation(database);
    project = await installation.project();
  });

  /** A commit that only the ref of a pull request leads to. */
  const propose = async (commit: NewCommit): Promise<string> => {
    const sha = await project.repository.commit({ on: 'proposed', ...commit });
    await project.repository.git(['update-ref', 'refs/pull/7/head', sha]);
    await project.repository.deleteBranch('proposed');
    return sha;
  };
  /** Builds a ref, and answers what the newest build of the commit said. */
  const built = async (t: TestContext, command: string, ref: string, sha: string): Promise<string> => {
    const suite = await project.suite(t, `suite ${Math.random()}`, command);
    assert.equal((await project.build(ref)).build_state, 'passed');
    const commit = (await project.commits()).find((one) => one['ref'] === sha);
    const builds = await project.builds(commit);
    return project.log(builds.find(({ suite_id_str }) => suite_id_str === suite));
  };

  test('it sees nothing that the key of the project opens, but its own commit, until it is merged [promise: fork-sources] [promise: git-keys]', async (t) => {
    const { repository } = project;
    const lib = await createRepository(join(installation.host.folder, 'lib.git'));
    const link = { submodule: await lib.commit({ files: { password: 'open sesame' } }) };
    const first = await repository.commit();
    const hidden = await repository.commit({ on: 'hidden', after: first, files: { plan: 'hidden' } });
    const sha = await propose({
      after: first,
      files: { '.gitmodules': '[submodule "lib"]\n\tpath = lib\n\turl = ../lib.git\n', lib: link },
    });
    const look = `cat lib/password; git cat-file -p ${hidden}:plan; git branch --remotes; git log --format=said:%H`;
    const command = `set +e; (${look}) 2>/dev/null; true`;
    for (const ref of ['refs/pull/7/head', sha]) {
      const said = await built(t, command, ref, sha);
      assert.match(said, /^Submodule lib is skipped: this commit, which comes from a fork, names .*lib\.git/);
      assert.doesNotMatch(said, /open sesame|hidden/);
      assert.deepEqual(said.match(/(?<=said:)\w+/g), (await repository.git(['rev-list', sha])).split('\n'));
    }
    await repository.overwrite('main', sha);
    const said = await built(t, command, 'main', sha);
    assert.match(said, /^open sesame\n?hidden\n? +origin\/hidden\n/);
    await repository.deleteBranch('hidden');
  });

  test('an address that only the repository names is judged, for everybody [promise: git-addresses]', async (t) => {
    await appendFile(installation.host.sshConfig, 'Host alias.test\n  HostName 127.0.0.1\n');
    const sha = await project.repository.commit({
      files: {
        '.gitmodules': ['10.0.0.5', 'alias.test']
          .map((host) => `[submodule "${host}"]\n\tpath = ${host}\n\turl = git@${host}:x\n`)
          .join(''),
        lib: null,
        '10.0.0.5': { submodule: 'a'.repeat(40) },
        'alias.test': { submodule: 'a'.repeat(40) },
      },
    });
    const said = await built(t, 'true', 'main', sha);
    for (const host of ['10.0.0.5', 'alias.test']) {
      assert.ok(said.includes(`Submodule ${host} is skipped: its address is not public`), said);
    }
  });
});
