import { copyFile, lstat, mkdir, readdir, readlink, stat, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DNS_ADDRESS } from './network.ts';
import { BUILD_USER, PLACES, type Network, type SandboxOptions } from './types.ts';

/**
 * The /etc that a build sees: a folder put together once, when the sandboxes are opened.
 *
 * The machine's own /etc is full of things that are nobody's business (password hashes, host keys, settings
 * of other programs), so this takes only what toolchains are known to read, and of that only what every user
 * of the machine may read. One folder instead of many small mounts, because each mount costs every start.
 */
const FOR_ALL = 'alternatives ld.so.cache ld.so.conf ld.so.conf.d nsswitch.conf';
const FOR_BUILDS = {
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
};

export async function composeEtc(target: string, network: Network, content: SandboxOptions['etc']): Promise<void> {
  await mkdir(target, { recursive: true, mode: 0o755 });
  const taken = content === 'bare' ? [FOR_ALL] : [FOR_ALL, ...Object.values(FOR_BUILDS)];
  for (const name of taken.flatMap((names) => names.split(' '))) {
    await mkdir(join(target, name, '..'), { recursive: true });
    await take(join('/etc', name), join(target, name));
  }
  const { name, uid, gid } = BUILD_USER;
  const nobody = 65_534;
  const texts: Record<string, string> = {
    passwd: `root:x:0:0:root:/:/usr/sbin/nologin\n${name}:x:${uid}:${gid}:build:${PLACES.home}:/bin/sh\nnobody:x:${nobody}:${nobody}:nobody:/:/usr/sbin/nologin\n`,
    group: `root:x:0:\n${name}:x:${gid}:\nnogroup:x:${nobody}:\n`,
    hostname: `${name}\n`,
    hosts: `127.0.0.1 localhost ${name}\n::1 localhost ip6-localhost ip6-loopback\n`,
  };
  // Outside names are looked up through the network's own forwarder, whatever the machine's resolver is.
  if (network === 'internet') texts['resolv.conf'] = `nameserver ${DNS_ADDRESS}\n`;
  for (const [file, text] of Object.entries(texts)) await writeFile(join(target, file), text, { mode: 0o644 });
  if (network === 'host') await take('/etc/resolv.conf', join(target, 'resolv.conf'), true);
}

/** Copies what everybody may read. Links stay links, so that they lead into the /usr that the build sees. */
async function take(from: string, to: string, follow = false): Promise<void> {
  const found = await (follow ? stat(from) : lstat(from)).catch(() => null);
  if (!found) return;
  const readableByAll = (found.mode & 0o004) !== 0;
  if (found.isSymbolicLink()) await symlink(await readlink(from), to);
  else if (found.isFile() && readableByAll) await copyFile(from, to);
  else if (found.isDirectory() && readableByAll) {
    await mkdir(to, { recursive: true, mode: 0o755 });
    for (const name of await readdir(from)) await take(join(from, name), join(to, name));
  }
}
