import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { run } from '../../src/shared/lib/processes.ts';
import { postgresPrograms } from './postgres.ts';
import { programLayer } from './program-layer.ts';
import { imageOfTars, shellLayer, type TestImage } from './registry.ts';
import { tarOf } from './tar.ts';

const user = 70;

/** As images of databases do it: root makes the directory, and another user fills it and serves. */
const entrypoint = `#!/bin/sh
set -e
as="/usr/bin/setpriv --reuid=${user} --regid=${user} --clear-groups"
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  mkdir -p "$PGDATA"
  chown ${user}:${user} "$PGDATA"
  chmod 700 "$PGDATA"
  $as initdb -U postgres -A trust -E UTF8 --no-locale --no-sync
fi
exec $as postgres -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c jit=off
`;

/** An image of this machine's PostgreSQL, with the libraries that it needs and nothing else. */
export async function postgresImage(): Promise<TestImage> {
  const programs = postgresPrograms();
  const shared = (await run(join(programs, 'pg_config'), ['--sharedir', '--pkglibdir'])).stdout.toString().trim();
  const [share = '', libraries = ''] = shared.split('\n');
  const own = ['postgres', 'initdb', 'pg_isready'].map((name) => join(programs, name));
  const modules = readdirSync(libraries).filter((name) => /^(dict_snowball|plpgsql)\.so$/.test(name));
  const files = [...own, '/usr/bin/setpriv', ...modules.map((name) => join(libraries, name))];
  const more = ['chown', 'chmod', 'test'].map(
    (name) => ({ name: `bin/${name}`, type: 'symbolic link', target: 'busybox' }) as const,
  );
  const settings = tarOf([
    ...shellLayer(),
    ...more,
    { name: 'etc/passwd', content: `root:x:0:0::/root:/bin/sh\npostgres:x:${user}:${user}::/srv:/bin/sh\n` },
    { name: 'etc/group', content: `root:x:0:\npostgres:x:${user}:\n` },
    { name: 'srv/', type: 'directory' },
    { name: 'bin/serve', content: entrypoint, mode: 0o755 },
  ]);
  return imageOfTars([settings, await programLayer(files, [share])], {
    packing: 'none',
    env: [`PATH=${programs}:/usr/bin:/bin`, 'PGDATA=/srv/data'],
    config: { Entrypoint: ['/bin/serve'], ExposedPorts: { '5432/tcp': {} } },
  });
}
