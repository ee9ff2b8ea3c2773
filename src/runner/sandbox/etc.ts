import {
  copyFileSync,
  existsSync,
  lchownSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readlinkSync,
  realpathSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { dnsAddress } from './network.ts';
import {
  buildUser,
  idsOfRun,
  sandboxPaths,
  type Identity,
  type Job,
  type Mount,
  type Network,
  type SandboxOptions,
} from './types.ts';

/**
 * A build's /etc, without the machine's secrets (password hashes, host keys): only public files that toolchains read.
 * One folder, because each mount slows down every start. Synchronous, because threads are slower for many small files.
 */
const forAll = 'alternatives ld.so.cache ld.so.conf ld.so.conf.d nsswitch.conf';
const forBuilds = {
  'the C library': 'gai.conf host.conf protocols services rpc',
  'time, language, the name of the system':
    'localtime timezone locale.alias locale.conf default/locale os-release debian_version lsb-release shells',
  'certificates, but not /etc/ssl/private':
    'ssl/certs ssl/openssl.cnf ca-certificates ca-certificates.conf pki/tls/certs pki/ca-trust/extracted crypto-policies',
  languages:
    'perl python3 python3.11 python3.12 python3.13 java-11-openjdk java-17-openjdk java-21-openjdk java-25-openjdk ' +
    'maven php ruby nodejs ghc erlang R mono',
  tools:
    'fonts ImageMagick-6 ImageMagick-7 chromium chromium.d firefox postgresql-common mysql redis magic magic.mime ' +
    'mime.types mailcap papersize inputrc terminfo profile bash.bashrc skel emacs vim texmf xml sgml OpenCL vulkan ' +
    'glvnd gtk-3.0 dbus-1/session.conf',
  'images, but neither credentials nor certificates of registries':
    'containers/policy.json containers/registries.conf containers/registries.conf.d',
};

/**
 * Trust settings for registries, certificates and signatures. A bare /etc has empty folders to mount current ones on.
 */
const trustPlaces = ['containers', 'docker/certs.d', 'ssl/certs', 'pki/ca-trust', 'pki/tls'];

/** Checked each time, because an operator may add a certificate at any time. */
export function machineTrust(): Mount[] {
  return trustPlaces
    .map((place) => join('/etc', place))
    .filter((path) => statSync(path, { throwIfNoEntry: false })?.isDirectory())
    .map((path) => ({ at: path, layers: [realpathSync(path)], isOfTheMachine: true }));
}

export function composeEtc(target: string, network: Network, content: SandboxOptions['etc']): void {
  mkdirSync(target, { recursive: true, mode: 0o755 });
  const taken = content === 'bare' ? [forAll] : [forAll, ...Object.values(forBuilds)];
  for (const name of taken.flatMap((names) => names.split(' '))) {
    mkdirSync(join(target, name, '..'), { recursive: true });
    take(join('/etc', name), join(target, name));
  }
  if (content === 'bare') for (const place of trustPlaces) mkdirSync(join(target, place), { recursive: true });
  const { name, uid, gid } = buildUser;
  const nobody = 65_534;
  const texts: Record<string, string> = {
    passwd: `root:x:0:0:root:/:/usr/sbin/nologin\n${name}:x:${uid}:${gid}:build:${sandboxPaths.home}:/bin/sh\nnobody:x:${nobody}:${nobody}:nobody:/:/usr/sbin/nologin\n`,
    group: `root:x:0:\n${name}:x:${gid}:\nnogroup:x:${nobody}:\n`,
    hostname: `${name}\n`,
    subuid: `root:1:${idsOfRun - 1}\n`,
    subgid: `root:1:${idsOfRun - 1}\n`,
    hosts: `127.0.0.1 localhost ${name}\n::1 localhost ip6-localhost ip6-loopback\n`,
  };
  // The network's own forwarder resolves external names, regardless of the machine's resolver.
  if (network === 'internet') texts['resolv.conf'] = `nameserver ${dnsAddress}\n`;
  for (const [file, text] of Object.entries(texts)) writeFileSync(join(target, file), text, { mode: 0o644 });
  if (network === 'host') take('/etc/resolv.conf', join(target, 'resolv.conf'), true);
}

/** A layer that covers an image's files at the sandbox's own paths below the root, such as a link or a device. */
export function overImages(folder: string, etc: string, owner: Identity): string {
  const target = join(folder, `${owner.uid}-${owner.gid}`);
  if (existsSync(target)) return target;
  const chown = (path: string): void => lchownSync(path, owner.uid, owner.gid);
  for (const path of ['', 'etc', 'home', 'home/build', 'var']) {
    mkdirSync(join(target, path), { recursive: true, mode: 0o755 });
    chown(join(target, path));
  }
  for (const name of ['hostname', 'hosts', 'resolv.conf']) {
    if (!existsSync(join(etc, name))) continue;
    copyFileSync(join(etc, name), join(target, 'etc', name));
    chown(join(target, 'etc', name));
  }
  for (const name of ['run', 'tmp']) {
    symlinkSync(`/${name}`, join(target, 'var', name));
    chown(join(target, 'var', name));
  }
  return target;
}

/** A layer with a run's accounts, which covers the image's files at their paths. */
export function overAccounts(target: string, accounts: NonNullable<Job['accounts']>, owner: Identity): string {
  mkdirSync(join(target, 'etc'), { recursive: true, mode: 0o755 });
  for (const [name, text] of Object.entries(accounts)) writeFileSync(join(target, 'etc', name), text, { mode: 0o644 });
  for (const path of ['', 'etc', ...Object.keys(accounts).map((name) => join('etc', name))])
    lchownSync(join(target, path), owner.uid, owner.gid);
  return target;
}

/** Copies files that every user may read. Links stay links, so that they lead into the /usr of the build. */
function take(from: string, to: string, follow = false): void {
  const found = (follow ? statSync : lstatSync)(from, { throwIfNoEntry: false });
  if (!found) return;
  const readableByAll = (found.mode & 0o004) !== 0;
  if (found.isSymbolicLink()) symlinkSync(readlinkSync(from), to);
  else if (found.isFile() && readableByAll) copyFileSync(from, to);
  else if (found.isDirectory() && readableByAll) {
    mkdirSync(to, { recursive: true, mode: 0o755 });
    for (const name of readdirSync(from)) if (!isManualPage(name)) take(join(from, name), join(to, name));
  }
}

/** Most links in /etc/alternatives lead to manual pages. No build reads them, and each link slows down every start. */
function isManualPage(name: string): boolean {
  return name.endsWith('.gz');
}
