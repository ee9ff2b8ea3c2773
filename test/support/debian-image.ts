import { lstatSync, mkdirSync, readFileSync, realpathSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { run } from '../../src/shared/lib/processes.ts';
import { tarOf, type TarEntry } from './tar.ts';

/**
 * The layers of a Debian system that can install packages, and has these, made of the files of the same packages on this
 * machine; and of a repository in it, at /srv/repository, with the package "greeter".
 */
export async function debianLayers(folder: string, packages: readonly string[] = []): Promise<Buffer[]> {
  const names = await closure(['apt', 'passwd', ...packages]);
  const lists = await run('dpkg', ['-L', ...names]);
  const files = new Set(lists.stdout.toString().split('\n').filter(isNeeded).map(canonical));
  const list = [...files].filter((path) => statSync(path, { throwIfNoEntry: false })).map((path) => path.slice(1));
  const how = [
    '-C',
    '/',
    '-c',
    '--no-recursion',
    '--numeric-owner',
    '--null',
    '-T',
    '-',
    '-f',
    join(folder, 'system.tar'),
  ];
  const system = await run('tar', how, { input: list.join('\0') });
  if (system.status !== 0) throw new Error(system.stderr.toString());
  return [readFileSync(join(folder, 'system.tar')), tarOf([...(await settings(names)), ...(await repository(folder))])];
}

const isNeeded = (path: string): boolean =>
  path.startsWith('/') &&
  !/^\/(\.$|usr\/share\/(doc|man|locale|info|bug|lintian|bash-completion|zoneinfo|i18n)\/|.*\/gconv\/)/.test(path);

/** Below directories that are links on this machine, as /bin is. */
const canonical = (path: string): string => {
  const folder = dirname(path);
  return statSync(folder, { throwIfNoEntry: false }) ? join(realpathSync(folder), basename(path)) : path;
};

/** These packages, those that every system has, and all that they depend on. */
async function closure(wanted: string[]): Promise<string[]> {
  const { stdout } = await run('dpkg-query', ['-W', '-f', '${Package}\t${Pre-Depends}, ${Depends}\t${Essential}\n']);
  const lines = stdout.toString().trim().split('\n');
  const known = lines.map((line) => line.split('\t') as [string, string, string]);
  const needs = new Map(known.map(([name, on]) => [name, on]));
  const found = new Set<string>();
  const add = (name: string): void => {
    if (found.has(name) || !needs.has(name)) return;
    found.add(name);
    for (const one of needs.get(name)?.split(/[,|]/) ?? []) add(plain(one));
  };
  const essential = known.filter(([, , isEssential]) => isEssential === 'yes').map(([name]) => name);
  [...essential, ...wanted].forEach(add);
  return [...found];
}

const plain = (name: string): string => name.trim().replace(/[ :(].*$/s, '');

async function settings(names: readonly string[]): Promise<TarEntry[]> {
  const all = readFileSync('/var/lib/dpkg/status', 'utf8').split('\n\n');
  const status = all
    .filter((text) => names.includes(/^Package: (.*)$/m.exec(text)?.[1] ?? ''))
    .map((text) => text.replaceAll(/^(?:Pre-)?Depends: .*\n/gm, '')); // on what is only provided by another, for example
  const links = ['bin', 'sbin', 'lib', 'lib64']
    .filter((name) => lstatSync(join('/', name), { throwIfNoEntry: false })?.isSymbolicLink())
    .map((name): TarEntry => ({ name, type: 'symbolic link', target: `usr/${name}` }));
  const pam = ['common-account', 'common-auth', 'common-password', 'common-session', 'common-session-noninteractive'];
  return [
    ...links,
    {
      name: 'etc/passwd',
      content: `${readFileSync('/usr/share/base-passwd/passwd.master', 'utf8').replace('root:*', 'root:x')}_apt:x:42:65534::/nonexistent:/usr/sbin/nologin\napp:x:70:71::/srv:/bin/sh\n`,
    },
    {
      name: 'etc/group',
      content: `${readFileSync('/usr/share/base-passwd/group.master', 'utf8')}app:x:71:\nteam:x:80:app\n`,
    },
    { name: 'etc/shadow', content: 'root:*:19000:0:99999:7:::\napp:*:19000:0:99999:7:::\n', mode: 0o640 },
    { name: 'etc/apt/sources.list', content: 'deb [trusted=yes] file:/srv/repository ./\n' },
    ...pam.map((name): TarEntry => ({
      name: `etc/pam.d/${name}`,
      content: readFileSync(`/etc/pam.d/${name}`, 'utf8'),
    })),
    { name: 'var/lib/dpkg/status', content: `${status.join('\n\n')}\n` },
    { name: 'root/', type: 'directory', mode: 0o700 },
    { name: 'tmp/', type: 'directory', mode: 0o1777 },
    { name: 'srv/of-app', content: 'of app\n', mode: 0o600, owner: [70, 71] },
  ];
}

/** A package whose installation makes a user and gives it a directory. */
async function repository(folder: string): Promise<TarEntry[]> {
  const architecture = (await run('dpkg', ['--print-architecture'])).stdout.toString().trim();
  const control = `Package: greeter\nVersion: 1.0\nArchitecture: ${architecture}\nMaintainer: t <t@example.org>\nDescription: greets\n`;
  const postinst =
    '#!/bin/sh\nset -e\nuseradd --system greeter\nmkdir -p /var/lib/greeter\nchown greeter: /var/lib/greeter\n';
  const entries: TarEntry[] = [
    { name: 'DEBIAN/', type: 'directory' },
    { name: 'DEBIAN/control', content: control },
    { name: 'DEBIAN/postinst', content: postinst, mode: 0o755 },
    { name: 'usr/bin/greet', content: '#!/bin/sh\necho greetings\n', mode: 0o755 },
  ];
  const place = join(folder, 'greeter');
  mkdirSync(place);
  await run('tar', ['-x', '-C', place], { input: tarOf(entries) });
  const built = await run('dpkg-deb', ['--build', '--root-owner-group', place, `${place}.deb`]);
  if (built.status !== 0) throw new Error(built.stderr.toString());
  const content = readFileSync(`${place}.deb`);
  const [sum = ''] = (await run('sha256sum', [`${place}.deb`])).stdout.toString().split(' ');
  const index = `${control}Filename: ./greeter.deb\nSize: ${content.length}\nSHA256: ${sum}\n`;
  return [
    { name: 'srv/repository/Packages', content: index },
    { name: 'srv/repository/greeter.deb', content },
  ];
}
