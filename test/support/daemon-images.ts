import { programLayer } from './program-layer.ts';
import { imageOfTars, shellLayer, type TestImage } from './registry.ts';
import { tarOf, type TarEntry } from './tar.ts';

/** Images of daemons of this machine that begin as root of their image, and go on as somebody with fewer rights. */

const applets = (...names: string[]): TarEntry[] =>
  names.map((name) => ({ name: `bin/${name}`, type: 'symbolic link', target: 'busybox' }));

const users = (...lines: string[]): TarEntry[] => [
  { name: 'etc/passwd', content: ['root:x:0:0::/root:/bin/sh', ...lines, ''].join('\n') },
  {
    name: 'etc/group',
    content: ['root:x:0:', ...lines.map((line) => `${line.split(':')[0]}:x:${line.split(':')[3]}:`), ''].join('\n'),
  },
];

/** Changes to the user redis, as the image that everybody has does it. */
const serveRedis = `#!/bin/sh
chown redis: . && exec /usr/bin/setpriv --reuid=999 --regid=999 --clear-groups redis-server "$@"
`;

/** The program of the server is that of the check, which goes by its name. */
export async function redisImage(): Promise<TestImage> {
  const settings = tarOf([
    ...shellLayer(),
    ...applets('chown'),
    ...users('redis:x:999:999::/data:/bin/sh'),
    { name: 'data/', type: 'directory' },
    { name: 'usr/bin/redis-server', type: 'symbolic link', target: 'redis-check-rdb' },
    { name: 'bin/serve', content: serveRedis, mode: 0o755 },
  ]);
  const programs = await programLayer(['/usr/bin/redis-check-rdb', '/usr/bin/setpriv']);
  return imageOfTars([programs, settings], {
    packing: 'none',
    env: ['PATH=/usr/bin:/bin'],
    config: {
      WorkingDir: '/data',
      Entrypoint: ['/bin/serve'],
      Cmd: ['--save', '', '--bind', '127.0.0.1'],
      ExposedPorts: { '6379/tcp': {} },
    },
  });
}

const sshdConfig = `Port 22
HostKey /etc/ssh/host_key
AuthorizedKeysFile /etc/ssh/authorized_keys
UsePAM no
Subsystem sftp internal-sftp
Match User jailed
  ChrootDirectory /srv/jail
  ForceCommand internal-sftp
`;

/**
 * An sshd for who has the key: the user "worker" gets a shell, and "jailed" sees /srv/jail alone. It asks for a password in an
 * empty root, as one that nobody has yet.
 */
export async function sshImage(publicKey: string): Promise<TestImage> {
  const settings = tarOf([
    ...shellLayer(),
    ...users(
      'sshd:x:100:65534::/run/sshd:/bin/false',
      'worker:x:1001:1001::/home/worker:/bin/sh',
      'jailed:x:1002:1002::/:/bin/sh',
    ),
    { name: 'etc/ssh/sshd_config', content: sshdConfig },
    { name: 'etc/ssh/authorized_keys', content: publicKey },
    { name: 'etc/shadow', content: 'worker:*:19000::::::\njailed:*:19000::::::\n', mode: 0o600 },
    { name: 'home/worker/', type: 'directory', owner: [1001, 1001] },
    { name: 'srv/jail/', type: 'directory' },
    { name: 'srv/jail/inside', content: 'inside\n' },
    { name: 'srv/outside', content: 'outside\n' },
  ]);
  const programs = await programLayer(['/usr/sbin/sshd', '/usr/bin/ssh-keygen']);
  const start =
    'mkdir -p /run/sshd && ssh-keygen -q -t ed25519 -N "" -f /etc/ssh/host_key && exec /usr/sbin/sshd -D -e';
  return imageOfTars([programs, settings], {
    packing: 'none',
    env: ['PATH=/usr/bin:/bin'],
    config: { Entrypoint: ['/bin/sh', '-c', start], ExposedPorts: { '22/tcp': {} } },
  });
}
