import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { onOneDatabase } from '../support/databases.ts';
import { startInstallation, type Installation, type Project } from '../support/installation.ts';
import { blob, bomb, rawCommit, rawTree } from '../runner/git/malice.ts';

/** Repositories that mean no good, in the whole service: what becomes of the builds that were asked for. */
onOneDatabase((database) => {
  let installation: Installation;
  let project: Project;
  before(async () => {
    installation = await startInstallation(database, { HEADRACE_FETCH_TIMEOUT: '20', HEADRACE_CHECKOUT_SIZE: '16' });
    project = await installation.project();
  });

  test('paths as long as can be are built, and do not keep the next runner from its work', async (t) => {
    await project.suite(t, 'unit', 'true');
    const path = `${'d'.repeat(200)}/`.repeat(19) + 'f'.repeat(200);
    await project.repository.commit({ files: { [path]: 'x' } });
    assert.equal((await project.build('main')).build_state, 'passed');
    await installation.killRunner();
    await project.repository.commit();
    assert.equal((await project.build('main')).build_state, 'passed');
    // One checkout: what the killed runner had made is gone.
    assert.equal(readdirSync(join(installation.folder, 'runner', 'checkouts')).length, 1);
  });

  test('missing parts of a work tree are named in the log of every build', async (t) => {
    for (const name of ['one', 'two']) await project.suite(t, name, 'ls lib; head -n 1 large.bin');
    const pointer = `version https://git-lfs.github.com/spec/v1\noid sha256:${'a'.repeat(64)}\nsize 5\n`;
    const sha = await project.repository.commit({
      files: {
        '.gitmodules': '[submodule "lib"]\n\tpath = lib\n\turl = https://10.1.2.3/lib.git\n',
        '.gitattributes': '*.bin filter=lfs diff=lfs merge=lfs -text\n',
        lib: { submodule: 'b'.repeat(40) },
        'large.bin': pointer,
      },
    });
    for (const ref of ['main', sha]) assert.equal((await project.build(ref)).build_state, 'passed');
    const [commit] = await project.commits();
    const builds = await project.builds(commit);
    assert.equal(builds.length, 4);
    for (const build of builds) {
      const said = await project.log(build);
      assert.match(said, /^Submodule lib is skipped: its address is not public.*\(https:\/\/10\.1\.2\.3\/lib\.git\)/);
      assert.match(said, /^The file large\.bin of Git LFS was not fetched, .*git\.test has no Git LFS over SSH/m);
      assert.match(said, /^version https:/m);
    }
    await project.repository.commit({ files: { '.gitmodules': null, lib: null, '.gitattributes': null } });
  });

  test('a tree that no git makes is refused in words', async () => {
    const { repository } = project;
    const config = await rawTree(repository, [{ mode: '100644', name: 'config', sha: await blob(repository, 'x') }]);
    await rawCommit(repository, await rawTree(repository, [{ mode: '40000', name: '.git', sha: config }]), 'evil');
    const request = await project.build('evil');
    assert.equal(request.build_state, 'errored');
    assert.match(await project.fetchLog(request), /contains an object that git rejects[^]*hasDotgit/);
    await repository.deleteBranch('evil');
  });

  test('a checkout that would be too large is refused in words, and its build says why', async (t) => {
    await project.suite(t, 'unit', 'true');
    await bomb(project.repository, 4, 10, 'x'.repeat(64 * 1024));
    const request = await project.build('main');
    assert.equal(request.build_state, 'errored');
    const [commit] = await project.commits();
    const [build] = await project.builds(commit);
    assert.equal(build?.failure_reason, 'checkout_too_large');
    assert.match(await project.log(build), /the checkout limit of 16 MB/);
    assert.ok(!readdirSync(join(installation.folder, 'runner', 'checkouts')).some((name) => name.endsWith('.part')));
  });

  test('a host that says nothing is left when the time is up, or when nobody wants it any more', async () => {
    const reached = await installation.host.fallSilent();
    const request = await project.build('main');
    assert.equal(request.build_state, 'errored');
    assert.match(await project.fetchLog(request), /its time limit of 20 s/);
    await reached();
    const called = await installation.host.fallSilent();
    const second = await project.ask('main');
    await called();
    await project.cancel(second);
    assert.equal((await project.end(second)).build_state, 'cancelled');
    await installation.host.recover();
  });
});
