import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import {
  chmodSync,
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { run } from '../../src/shared/lib/processes.ts';
import { cleanUpAfterwards, folderFor } from '../support/folders.ts';
import { lacks } from '../support/machine.ts';
import { longestWait } from '../support/pauses.ts';
import type { Started } from '../support/program.ts';
import { copyCertificate } from '../support/templates.ts';
import { podIn, podOf, type Pod } from './pods.ts';
import { done, project, said } from './support.ts';

const only = <T>([first, ...others]: readonly T[] = []): T => {
  assert.equal(others.length, 0);
  return first ?? assert.fail('there is none');
};

async function until(isSo: () => boolean, started: Started): Promise<void> {
  for (const from = performance.now(); !isSo(); await pause(20)) {
    assert.equal(started.process.exitCode, null, started.said());
    assert.ok(performance.now() - from < longestWait, started.said());
  }
}

describe('the pods of the manifests', { skip: lacks('mounts', 'other users', 'isolated runner') }, () => {
  const afterwards = cleanUpAfterwards();
  let folder: string;
  let server: Pod;
  let serving: Started;
  const addressOf = (started: Started): string => /^listening on (\S+)$/m.exec(started.said())?.[1] ?? '';
  const startServer = async (): Promise<Started> => {
    const started = server.start(afterwards, server.args, { HEADRACE_PORT: '0' });
    await until(() => addressOf(started) !== '', started);
    return started;
  };
  before(async () => {
    folder = folderFor(afterwards);
    const secrets = join(folder, 'server');
    for (const name of ['master-key', 'tls']) mkdirSync(join(secrets, name), { recursive: true });
    const key = `${randomBytes(4).toString('hex')}:${randomBytes(32).toString('base64')}\n`;
    writeFileSync(join(secrets, 'master-key/master.key'), key);
    copyCertificate(folder);
    copyFileSync(join(folder, 'tls/cert.pem'), join(secrets, 'tls/tls.crt'));
    copyFileSync(join(folder, 'tls/key.pem'), join(secrets, 'tls/tls.key'));
    const spec = podOf('server.yaml', 'Deployment');
    server = podIn(secrets, spec, only(spec.containers));
    serving = await startServer();
  });
  after(async () => {
    serving.process.kill('SIGTERM');
    await serving.exited;
  });

  test('a server starts on its volume, which belongs to root, and keeps others out of its folder', async () => {
    const data = server.env.HEADRACE_DATA_DIR ?? '';
    assert.equal(data, '/var/lib/headrace/data');
    const found = statSync(join(folder, 'server/data/data'));
    assert.deepEqual([found.uid, found.mode & 0o777], [10443, 0o700]);
    const printed = await server.exec(['cat', server.args.at(-1) ?? '']);
    assert.match(printed.stdout.toString(), /e-mail +admin@localhost/, said(printed));
    const reset = await server.exec(['headrace', 'admin', 'user', 'reset', 'admin@localhost']);
    assert.match(reset.stdout.toString(), /"api_key":/, said(reset));
    assert.notEqual((await server.exec(['touch', '/etc/here'])).status, 0, 'files are read-only');
  });

  test('a server that nobody told of such a folder makes one of its own, and every command finds it', async () => {
    const spec = podOf('server.yaml', 'Deployment');
    const secrets = join(folder, 'plain');
    for (const name of ['master-key', 'tls'])
      cpSync(join(folder, 'server', name), join(secrets, name), { recursive: true });
    const plain = podIn(secrets, spec, only(spec.containers));
    const env = { HEADRACE_DATA_DIR: '/var/lib/headrace', HEADRACE_PORT: '0' };
    const started = plain.start(afterwards, ['serve', '--no-runner'], env);
    await until(() => addressOf(started) !== '', started);
    assert.match(started.said(), /the data folder is \/var\/lib\/headrace\/headrace-10443, because/);
    const found = statSync(join(secrets, 'data/headrace-10443'));
    assert.deepEqual([found.uid, found.mode & 0o777], [10443, 0o700]);
    const made = await plain.exec(['headrace', 'admin', 'runner', 'create', 'r'], env);
    assert.match(made.stdout.toString(), /"token":/, said(made));
    const backup = await plain.exec(['headrace', 'backup', '/var/lib/headrace/copy'], env);
    assert.equal(backup.status, 0, said(backup));
    const doctor = await plain.exec(['headrace', 'doctor'], env);
    assert.match(doctor.stdout.toString(), /data folder +\/var\/lib\/headrace\/headrace-10443\n/, said(doctor));
    started.process.kill('SIGTERM');
    assert.equal(await started.exited, 0, started.said());
  });

  test('a runner is ready when it is connected, and ends well when it is asked to', async () => {
    const secrets = join(folder, 'runner');
    mkdirSync(join(secrets, 'runner'), { recursive: true });
    const made = await server.exec(['headrace', 'admin', 'runner', 'create', 'cluster']);
    const { token } = JSON.parse(made.stdout.toString()) as { token: string };
    writeFileSync(join(secrets, 'runner/token'), `${token}\n`);
    copyFileSync(join(folder, 'tls/cert.pem'), join(secrets, 'runner/ca.crt'));
    await prepareNode(secrets);
    const spec = podOf('runners.yaml', 'ScaledJob');
    const container = only(spec.containers);
    const pod = podIn(secrets, spec, container);
    const [program, flag, file = ''] = pod.probe;
    assert.deepEqual([program, flag], ['test', '-e']);
    const isReady = (): boolean => existsSync(join(secrets, file));
    const args = pod.args.map((word) =>
      word.replace(/^--url=.*/, `--url=${addressOf(serving)}`).replace(/^--idle=.*/, '--idle=999999'),
    );
    assert.notDeepEqual(args, pod.args);
    const runner = pod.start(afterwards, args, lacks('tun') ? { HEADRACE_BUILD_NETWORK: 'none' } : {});
    await until(isReady, runner);
    assert.match(runner.said(), /newuidmap has no effect here, because this process may not gain privileges/);
    assert.doesNotMatch(runner.said(), /apt-get install/);
    const found = statSync(join(secrets, 'work/data'));
    assert.deepEqual([found.uid, found.mode & 0o777], [10444, 0o700]);

    serving.process.kill('SIGTERM');
    await serving.exited;
    await until(() => !isReady(), runner);
    runner.process.kill('SIGTERM');
    assert.equal(await runner.exited, 0, runner.said());
    rmSync(secrets, { recursive: true });
    serving = await startServer();
  });
});

/** Runs the script of the DaemonSet for a node whose folders are here, and puts its device where a pod's volume is. */
async function prepareNode(folder: string): Promise<void> {
  const node = join(folder, 'node');
  for (const name of ['profile', 'profiles', 'devices']) mkdirSync(join(node, name), { recursive: true });
  copyFileSync(join(project, 'deploy/kubernetes/seccomp.json'), join(node, 'profile/seccomp.json'));
  const spec = podOf('nodes.yaml', 'DaemonSet');
  const container = only(spec.initContainers);
  const ran = await podIn(node, { volumes: [] }, container).exec([...(container.command ?? []), ...container.args]);
  assert.equal(ran.status, 0, said(ran));
  await done('mv', join(node, 'devices/tun'), join(folder, 'tun'));
}

describe('a node that is prepared for runners', { skip: lacks('mounts', 'other users', 'user namespaces') }, () => {
  const afterwards = cleanUpAfterwards();
  let folder: string;
  before(() => {
    folder = folderFor(afterwards);
    chmodSync(folder, 0o755);
    mkdirSync(join(folder, 'profile'));
    copyFileSync(join(project, 'deploy/kubernetes/seccomp.json'), join(folder, 'profile/seccomp.json'));
    for (const name of ['profiles', 'devices']) mkdirSync(join(folder, name));
  });

  test('has the profile that containers have elsewhere, and a device that everybody may open', async () => {
    const container = only(podOf('nodes.yaml', 'DaemonSet').initContainers);
    const pod = podIn(folder, { volumes: [] }, container);
    for (const time of ['the first time', 'again']) {
      const ran = await pod.exec([...(container.command ?? []), ...container.args]);
      assert.equal(ran.status, 0, `${time}: ${said(ran)}`);
    }
    const profile = readFileSync(join(folder, 'profiles/headrace.json'));
    assert.ok(profile.equals(readFileSync(join(project, 'deploy/container/seccomp.json'))));
    const device = statSync(join(folder, 'devices/tun'));
    assert.deepEqual([device.isCharacterDevice(), device.rdev, device.mode & 0o777], [true, (10 << 8) | 200, 0o666]);
  });

  test(
    'whose device makes a tunnel in a user namespace, which can make no such device',
    { skip: lacks('tun') },
    async () => {
      // TUNSETIFF for a device of the kind that slirp4netns makes.
      const tunnel = `open(my $tun, '+<', $ARGV[0]) or die "open: $!";
      my $name = pack('Z16 S x22', 'tap0', 0x1002);
      ioctl($tun, 0x400454ca, $name) or die "ioctl: $!";
      system 'ip', '-brief', 'link', 'show', 'tap0'`;
      const within = ['--reuid', '10444', '--regid', '10444', '--clear-groups', '--no-new-privs', '--'];
      const namespace = ['unshare', '--user', '--map-root-user', '--net'];
      const made = await run('setpriv', [...within, ...namespace, 'perl', '-e', tunnel, join(folder, 'devices/tun')]);
      assert.match(made.stdout.toString(), /^tap0 /, said(made));
      const refused = await run('setpriv', [
        ...within,
        ...namespace,
        'mknod',
        '/tmp/headrace-no-tun',
        'c',
        '10',
        '200',
      ]);
      assert.match(said(refused), /Operation not permitted/);
    },
  );
});
