import assert from 'node:assert/strict';
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { removeTree } from '../../src/shared/lib/remove-tree.ts';
import { run } from '../../src/shared/lib/processes.ts';
import { temporaryFolder } from '../support/folders.ts';
import { createRepository } from '../support/repository.ts';
import { startGitHost, type GitHost } from '../support/sshd.ts';
import { startContainer, until, type Container } from './containers.ts';
import { done, large, makePackage, project } from './support.ts';

describe('the image', large, () => {
  const folder = temporaryFolder();
  const tag = `headrace-test-${process.pid}`;
  let git: GitHost;
  let container: Container;
  const flags = (): string[] => [
    '--cap-drop=ALL',
    '--security-opt',
    'no-new-privileges',
    '--read-only',
    '--security-opt',
    'unmask=ALL',
    '--security-opt',
    `seccomp=${join(project, 'deploy/container/seccomp.json')}`,
    '--device',
    `${folder}/tun:/dev/net/tun`,
    '--network=host',
    '--volume',
    `${tag}:/var/lib/headrace`,
    '--volume',
    `${git.sshConfig}:${git.sshConfig}:ro`,
    '--env',
    'HEADRACE_PORT=0',
    '--env',
    'HEADRACE_HOST=127.0.0.1',
    '--env',
    `HEADRACE_SSH_CONFIG=${git.sshConfig}`,
  ];
  before(async () => {
    await done(join(project, 'scripts/make-image'), '--tag', tag, '--package', await makePackage(folder, '1.0.0'));
    await done('mknod', '-m', '666', join(folder, 'tun'), 'c', '10', '200');
    git = await startGitHost();
    container = await startContainer(...flags(), tag);
  });
  after(async () => {
    await container?.close();
    await git?.close();
    await run('podman', ['volume', 'rm', '--force', tag]);
    await run('buildah', ['rmi', '--force', tag]);
    await removeTree(folder);
  });

  test('holds nothing that is secret, set-user-id, or for development', async () => {
    const listing = join(folder, 'files');
    mkdirSync(listing);
    await done('sh', '-c', `podman save --format oci-dir -o ${listing}/oci ${tag} >/dev/null`);
    const layers = await done(
      'sh',
      '-c',
      `for l in ${listing}/oci/blobs/sha256/*; do tar -tvf $l 2>/dev/null; done; true`,
    );
    assert.ok(layers.includes('usr/lib/headrace/src/main.ts'));
    const lines = layers.split('\n');
    const odd = lines.filter((line) =>
      /^-\S*s|master\.key|\.pem$(?<!ssl\/certs\/.*)|\/\.git\/|headrace\/test\/|first-user|machine-id$|node_modules\/typescript/.test(
        line,
      ),
    );
    assert.deepEqual(
      odd.filter((line) => !/ca-certificates|ssl\/certs|usr\/share/.test(line)),
      [],
    );
    assert.ok(!lines.some((line) => / var\/lib\/headrace\/./.test(line.replace(' ./', ' '))), 'no data');
  });

  test('serves with its runner, as an ordinary user, and says that it is well', async () => {
    await until(
      async () => (await container.logs()).includes('listening on'),
      () => container.logs(),
    );
    const address = /listening on (\S+)/.exec(await container.logs())?.[1] ?? '';
    const healthy = `HEADRACE_PORT=${address.split(':').at(-1)} headrace-health`;
    await until(
      async () => (await container.sh(healthy)).status === 0,
      () => container.logs(),
    );
    assert.notEqual((await container.sh('HEADRACE_PORT=1 headrace-health')).status, 0);
    const connected = async (): Promise<boolean> =>
      (await container.sh(`curl -sk ${address}/healthz`)).stdout.toString().includes('"state":"connected"');
    await until(
      connected,
      async () => (await container.logs()) + (await container.works('cat /var/lib/headrace/runner.log', 'headrace')),
    );
    assert.match(
      await container.works('grep -h -E "^(Uid|CapBnd|NoNewPrivs)" /proc/1/status'),
      /10443.*\n.*0000000000000000\n.*1\n/,
    );

    const key = /API key +(\S+)/.exec(await container.logs())?.[1] ?? '';
    const ask = async <T>(path: string, ...form: string[]): Promise<T> => {
      const fields = form.map((field) => `--data-urlencode '${field}'`).join(' ');
      const printed = await container.works(`curl -sSk -u 'admin@localhost:${key}' ${fields} ${address}${path}`);
      return (JSON.parse(printed) as { response: T }).response;
    };
    const repository = await createRepository(join(git.folder, 'app.git'));
    await repository.commit({ message: 'first' });
    const made = await ask<{ id_str: string; ssh_public_key: string }>(
      '/projects',
      'name=app',
      `repository_url=${git.url('app.git')}`,
    );
    await git.authorize(made.ssh_public_key);
    await ask(
      `/projects/${made.id_str}/suites`,
      'name=unit',
      'command=id -u && touch here && ! touch /usr/here && ! ls /var/lib/headrace',
    );
    const { id_str: id } = await ask<{ id_str: string }>(`/projects/${made.id_str}/build_requests`, 'commit_ref=main');
    const state = async (): Promise<string> =>
      (await ask<{ build_state: string }>(`/projects/${made.id_str}/build_requests/${id}`)).build_state;
    await until(
      async () => ['passed', 'failed', 'errored'].includes(await state()),
      () => container.logs(),
    );
    assert.equal(await state(), 'passed', await container.logs());
  });

  test('ends when it is asked to, and keeps what it had in its volume', async () => {
    const key = await container.works('sha256sum /var/lib/headrace/master.key', 'headrace');
    assert.equal(await container.stop(), '0');
    await container.close();
    container = await startContainer(...flags(), tag);
    await until(
      async () => (await container.logs()).includes('listening on'),
      () => container.logs(),
    );
    assert.doesNotMatch(await container.logs(), /API key/);
    assert.equal(await container.works('sha256sum /var/lib/headrace/master.key', 'headrace'), key);
  });

  test('is documented with the flags that it is tried with', () => {
    const documented = readFileSync(join(project, 'docs/install-image.md'), 'utf8');
    for (const flag of [
      '--cap-drop=ALL',
      'no-new-privileges',
      '--read-only',
      'unmask=ALL',
      'deploy/container/seccomp.json',
    ])
      assert.ok(documented.includes(flag), flag);
  });
});
