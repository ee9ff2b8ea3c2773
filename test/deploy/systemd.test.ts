import assert from 'node:assert/strict';
import { copyFileSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { removeTree } from '../../src/shared/lib/remove-tree.ts';
import { temporaryFolder } from '../support/folders.ts';
import { startContainer, until, type Container } from './containers.ts';
import { debianWith } from './debian.ts';
import { askAt, gitUser, makeProject, type Ask } from './first-build.ts';
import { done, large, makePackage } from './support.ts';

interface Build {
  build_state: string;
  attempt: number;
  failure_reason: string;
}

describe('the package on a Debian with systemd', large, () => {
  const folder = temporaryFolder();
  let machine: Container;
  before(async () => {
    const [first, second] = [await makePackage(folder, '1.0.0'), await makePackage(folder, '1.0.1')];
    const needed = (await done('dpkg-deb', '--field', first, 'Depends')).trim().replaceAll(/ \([^)]*\)/g, '');
    const root = join(folder, 'root');
    mkdirSync(root);
    const packages = `${needed.replaceAll(', ', ',')},systemd,systemd-sysv,openssh-server,curl`;
    await done('tar', '-xf', await debianWith(packages), '-C', root);
    copyFileSync(first, join(root, 'first.deb'));
    copyFileSync(second, join(root, 'second.deb'));
    // Its own loopback is all the network there is: a git host lives there too.
    machine = await startContainer(
      '--privileged',
      '--systemd=always',
      '--network=none',
      '--rootfs',
      root,
      '/sbin/init',
    );
    await machine.works('systemctl is-system-running --wait || true; chmod 666 /dev/net/tun');
  });
  after(async () => {
    await machine.close();
    await removeTree(folder);
  });

  const credentials = `-u "admin@localhost:$(sed -n 's/.*API key *//p' /var/lib/headrace/first-user)"`;
  const curl = `--cacert /etc/headrace/runner/server.pem ${credentials}`;
  const ask: Ask = (path, ...form) => askAt(machine.works, 'https://127.0.0.1:8443', curl)(path, ...form);
  const journal = (): Promise<string> => machine.works('journalctl --no-pager -n 60 -u headrace -u headrace-runner');
  const isConnected = async (): Promise<boolean> =>
    (await machine.sh('curl -sk https://127.0.0.1:8443/healthz')).stdout.toString().includes('"state":"connected"');
  let projectPath = '';

  const request = async (): Promise<{ state(): Promise<string>; builds(): Promise<Build[]> }> => {
    const { id_str: id } = await ask<{ id_str: string }>(`${projectPath}/build_requests`, 'commit_ref=main');
    return {
      state: async () => (await ask<{ build_state: string }>(`${projectPath}/build_requests/${id}`)).build_state,
      builds: async () => {
        const [commit] = await ask<{ id_str: string }[]>(`${projectPath}/commits`);
        return commit ? ask<Build[]>(`${projectPath}/commits/${commit.id_str}/builds`) : [];
      },
    };
  };

  test('installing it ends with a running server and runner, of their own users', async () => {
    await machine.works('dpkg --install /first.deb');
    await until(isConnected, journal);
    assert.equal(await machine.works('systemctl is-active headrace headrace-runner'), 'active\nactive\n');
    const users = await machine.works(
      'for u in headrace headrace-runner; do stat -c %U /proc/$(systemctl show --value -p MainPID $u); done',
    );
    assert.equal(users, 'headrace\nheadrace-runner\n');
    const password = (await machine.works("sed -n 's/.*password *//p' /var/lib/headrace/first-user")).trim();
    assert.ok(password.length > 10 && !(await journal()).includes(password));
  });

  test('a build runs there', async () => {
    await machine.works(gitUser);
    projectPath = await makeProject(machine.works, ask);
    await ask(`${projectPath}/suites`, 'name=unit', 'command=id -u; sleep 8; echo over');
    const asked = await request();
    await until(async () => ['passed', 'failed', 'errored'].includes(await asked.state()), journal);
    assert.equal(await asked.state(), 'passed', await journal());
  });

  test('a server that is started again leaves the build alone', async () => {
    const asked = await request();
    await until(async () => (await asked.state()) === 'building', journal);
    await machine.works('systemctl restart headrace');
    await until(async () => (await asked.state()) === 'passed', journal);
    const builds = await asked.builds();
    assert.deepEqual(
      builds.map(({ build_state: state }) => state),
      ['passed', 'passed'],
    );
  });

  test('an upgrade while a build runs ends with one server, one runner and the build passed', async () => {
    const asked = await request();
    await until(async () => (await asked.state()) === 'building', journal);
    await machine.works('dpkg --install /second.deb');
    await until(isConnected, journal);
    await until(async () => (await asked.state()) === 'passed', journal);
    const before = (await asked.builds()).filter(({ failure_reason: why }) => why === 'runner_lost');
    assert.deepEqual(before, [], 'the runner ended after its work');
    const count =
      'for p in /proc/[0-9]*; do tr "\\0" " " < $p/cmdline 2>/dev/null | grep -oE "main.js (serve|runner)"; done | sort';
    assert.equal(await machine.works(count), 'main.js runner\nmain.js serve\n');
  });

  test('another certificate reaches the runner by itself', async () => {
    await machine.works(
      'echo HEADRACE_BASE_URL=https://ci.example.test:8443 >> /etc/headrace/server.env; systemctl restart headrace',
    );
    await until(isConnected, journal);
    assert.equal((await machine.sh('cmp /var/lib/headrace/tls/cert.pem /etc/headrace/runner/server.pem')).status, 0);
  });

  test('what the operator switched off stays off over an upgrade', async () => {
    await machine.works('systemctl disable --now headrace-runner && dpkg --install --force-downgrade /first.deb');
    assert.match(
      (await machine.sh('systemctl is-active headrace headrace-runner')).stdout.toString(),
      /^active\ninactive\n/,
    );
    await machine.works('systemctl enable --now headrace-runner');
    await until(isConnected, journal);
  });

  test('removal while a build runs leaves no process, and purging nothing else', async () => {
    const asked = await request();
    await until(async () => (await asked.state()) === 'building', journal);
    await machine.works('dpkg --remove headrace');
    const running =
      'for p in /proc/[0-9]*; do tr "\\0" " " < $p/cmdline 2>/dev/null | grep -E "headrace|bwrap|slirp4netns"; done | grep -v grep';
    assert.equal((await machine.sh(running)).stdout.toString(), '');
    await machine.works('test -e /var/lib/headrace/headrace.db && dpkg --purge headrace');
    const left = await machine.works('find / -xdev -name "*headrace*" -not -path "/proc/*" -not -path "/sys/*"');
    assert.equal(left, '');
    assert.equal((await machine.sh('getent passwd headrace headrace-runner')).status, 2);
  });
});
