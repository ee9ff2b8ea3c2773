import assert from 'node:assert/strict';
import { chmod, chown, copyFile, mkdtemp, readdir, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { run } from '../../../src/shared/lib/processes.ts';
import { removeTree } from '../../../src/shared/lib/remove-tree.ts';
import { createRepository } from '../../support/repository.ts';
import { workplace } from './workplace.ts';
import { lacks } from '../../support/machine.ts';

const nobody = 65_534;

/** What a runner does with git, from the first fetch on; its last line tells what came of it. */
const story = `
  const module = (name) => import(new URL(name, process.env.SOURCE).href);
  const { openMirrors } = await module('git/mirrors.ts');
  const { openSandboxes } = await module('sandbox/index.ts');
  const { project, dir, sshConfig, sha, remoteUrl } = JSON.parse(await new Response(process.stdin).text());
  const isolation = process.env.ISOLATION;
  const sandboxes = await openSandboxes({ stateDir: dir + '/sandboxes', network: 'none', isolation, log: () => {} });
  const mirrors = await openMirrors({ dir: dir + '/git', sandboxes, isolation, sshConfig });
  const request = { ...project, writeLog: (text) => void process.stderr.write(text), signal: new AbortController().signal };
  const fetched = await mirrors.fetch({ ...request, commitRef: 'main' });
  const again = await mirrors.fetch({ ...request, commitRef: sha });
  await mirrors.checkout({ ...request, sha, into: dir + '/tree' });
  const target = { localBranch: 'main', remoteUrl, remoteBranch: 'live' };
  const pushed = await mirrors.push({ ...request, sha, ...target });
  const missing = await mirrors.fetch({ ...request, commitRef: 'missing' }).catch((error) => error.kind);
  await sandboxes.close();
  await mirrors.close();
  console.log(JSON.stringify([fetched.sha === sha, again.files, pushed, missing]));`;

for (const isolation of ['required', 'off'] as const) {
  for (const uid of [0, nobody]) {
    const who = uid === 0 ? 'root' : 'an ordinary user';
    test(`git works for ${who}, with isolation ${isolation}`, { skip: lacks('other users') }, async (t) => {
      const { host, repository, project } = await workplace(t);
      const inner = await createRepository(join(host.folder, 'inner.git'));
      const commit = await inner.commit({ files: { inner: 'inside' } });
      const modules = '[submodule "x"]\n\tpath = lib/x\n\turl = ../inner.git\n';
      const sha = await repository.commit({
        files: { a: '1', '.gitmodules': modules, 'lib/x': { submodule: commit } },
      });
      const target = await createRepository(join(host.folder, 'live.git'));
      const dir = await mkdtemp(join(tmpdir(), 'git-user-'));
      t.after(() => removeTree(dir));
      const sshConfig = join(dir, 'ssh_config');
      await copyFile(host.sshConfig, sshConfig);
      await chmod(sshConfig, 0o644);
      await chown(dir, uid, uid);
      const { writeLog: _, signal: __, ...plain } = project;
      const finished = await run(
        process.execPath,
        ['--disable-warning=ExperimentalWarning', '--input-type=module', '-e', story],
        {
          uid,
          gid: uid,
          env: {
            PATH: process.env['PATH'],
            SOURCE: new URL('../../../src/runner/', import.meta.url).href,
            ISOLATION: isolation,
          },
          input: JSON.stringify({ project: plain, dir, sshConfig, sha, remoteUrl: host.url('live.git') }),
        },
      );
      assert.equal(finished.status, 0, finished.stderr.toString());
      const came = [true, ['.gitmodules', 'a', 'lib/x'], { pushed: true, alreadyThere: false }, 'ref_not_found'];
      assert.deepEqual(JSON.parse(finished.stdout.toString()), came);
      assert.equal(await readFile(join(dir, 'tree', 'lib', 'x', 'inner'), 'utf8'), 'inside');
      assert.equal(await target.sha('live'), sha);
      assert.deepEqual((await readdir(dir)).toSorted(), ['git', 'sandboxes', 'ssh_config', 'tree']);
    });
  }
}
