import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { constants } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { rootUser, type Job } from '../../../src/runner/sandbox/types.ts';
import { kinds, libseccomp, machine, numberOf, policy } from './seccomp-support.ts';
import { open, tree } from './support.ts';
import { lacks } from '../../support/machine.ts';

const skip = lacks('root', 'tun');
const buildsImages = true as const;
const asRoot: Partial<Job> = { user: rootUser, buildsImages };
const added = kinds['-images'] ?? [];
const allButEleven = /CapBnd:\t00000000a00404fb/;

/** Each in a directory of its own, as root of the sandbox; `within` it begins in a new user and mount namespace. */
function script(tries: Record<string, string>, within: string): string {
  const each = Object.entries(tries).map(([name, command], index) => {
    const quoted = `'${command.replaceAll("'", `'\\''`)}'`;
    const run = `mkdir /tmp/try-${index}; cd /tmp/try-${index}; mkdir t u w; ${within} sh -c ${quoted} >out 2>&1`;
    return `( ${run} && echo "[${name}]" )`;
  });
  return each.join('\n');
}

const done = (text: string): string[] => [...text.matchAll(/^\[(.*)\]$/gm)].map(([, name = '']) => name);

test('a build that makes images has namespaces and mounts of its own, and sees /sys', { skip }, async (t) => {
  const { sh } = await open(t, { network: 'internet' });
  const tries = {
    'a user and a mount namespace': 'true',
    'every capability in them': 'grep -q "CapEff:.0*1f*$" /proc/self/status',
    memory: 'mount -t tmpfs none t && touch t/x',
    'a bind mount': 'mount --bind u t && touch t/x && test -e u/x',
    'layers of files':
      'mkdir l; echo a >l/a; mount -t overlay -o userxattr,lowerdir=l,upperdir=u,workdir=w none t && rm t/a && touch t/b && test -e l/a -a ! -e l/b -a ! -e t/a',
    'its own mount undone': 'mount -t tmpfs none t && umount t',
    'another root':
      'mount --rbind /usr t && mkdir u/usr && mount --rbind /usr u/usr && for d in bin lib lib64; do ln -s usr/$d u/$d; done; chroot u /bin/true',
    'processes, a name and messages of its own': 'unshare -pfiu true',
    'one more': 'unshare -Urm mount -t tmpfs none t',
    'back into its own':
      'unshare -Urm sleep 60 & until [ "$(readlink /proc/$!/ns/mnt)" != "$(readlink /proc/self/ns/mnt)" ]; do :; done; nsenter -t $! -U -m --preserve-credentials true; s=$?; kill $!; exit $s',
    '/sys': 'test -d /sys/class/net/lo -a -d /sys/kernel',
  };
  const { text } = await sh(script(tries, 'unshare -Urm'), asRoot);
  assert.deepEqual(done(text), Object.keys(tries), text);
  // Maps of all its IDs, as buildah and podman write them.
  const mapped = await sh(
    'unshare -U sleep 60 & until [ "$(readlink /proc/$!/ns/user)" != "$(readlink /proc/self/ns/user)" ]; do :; done; echo "0 0 65536" >/proc/$!/uid_map && cat /proc/$!/uid_map; kill $!',
    asRoot,
  );
  assert.match(mapped.text, /^\s+0\s+0\s+65536\n/);
  // Others have none of it, also where the last sandbox was such a one.
  const other = await sh('unshare -Urm true || echo no namespace; ls -d /sys/kernel || echo no sys', {
    user: rootUser,
  });
  assert.match(other.text, /no namespace\n(.*\n)?no sys\n$/);
});

test('a network that leads nowhere is there where builds have none', { skip }, async (t) => {
  const { sh } = await open(t);
  const look =
    'ls /sys/class/net; unshare -Urn true || echo no other; perl -MIO::Socket::INET -e \'my $at = IO::Socket::INET->new(LocalAddr => "127.0.0.1:80", Listen => 1) or die; IO::Socket::INET->new("127.0.0.1:80") and print "connected\\n"\'';
  const { text } = await sh(look, asRoot);
  assert.match(text, /^lo\n(.*\n)?no other\nconnected\n$/);
});

test('what a build that makes images may not do [promise: image-builds]', { skip }, async (t) => {
  const { sh, folder, stateDir, sandboxes } = await open(t, { network: 'internet' });
  const listener = createServer().listen(0, '127.0.0.1');
  await once(listener, 'listening');
  t.after(() => listener.close());
  const { port } = listener.address() as AddressInfo;
  const outside = await tree(join(folder, 'outside'), { secret: 'secret' });
  await chmod(folder, 0o755);
  const programs = join(folder, 'programs');
  await mkdir(programs);
  execFileSync('cc', ['-O1', '-static', '-o', join(programs, 'calls'), 'test/runner/sandbox/seccomp-calls.c']);
  await sandboxes.adopt(programs);
  const over = new AbortController();
  const begun = Promise.withResolvers<void>();
  const neighbour = sh('echo secret >/tmp/of-neighbour; echo there; sleep 7654', {
    output: () => begun.resolve(),
    signal: over.signal,
  });
  await begun.promise;

  // In the sandbox itself nothing has changed.
  const before = {
    'a mount': 'mount -t tmpfs none t',
    'a bind mount': 'mount --bind /usr t',
    'no mount': 'umount /sys',
    'a mount namespace without its users': 'unshare -m true',
    'more rights': 'setpriv --bounding-set=+sys_admin true; setpriv --inh-caps=+sys_admin true',
    'an owner beyond its own': 'touch f; chown 65536 f',
    'the mounts of the sandbox': 'nsenter -t 1 -m true',
    'who is who': 'echo x >>/etc/passwd',
    'the name of its control group': "grep -v ':/$' /proc/self/cgroup",
  };
  const tries = {
    // What the sandbox has was locked by the kernel: it cannot be taken away, uncovered or made writable.
    'the machine’s programs, writable': 'mount -o remount,bind,rw /usr',
    'a view of them, writable': 'mount --rbind /usr t; mount -o remount,bind,rw t && touch t/x',
    'no programs of the machine': 'umount -l /usr',
    '/sys, writable': 'mount -o remount,rw /sys || mount -o remount,bind,rw /sys',
    'something in /sys': 'echo 1 >/sys/kernel/profiling || echo add >/sys/devices/virtual/mem/null/uevent',
    'the firmware': 'umount -l /sys/firmware || ls -A /sys/firmware | grep .',
    'what is below /sys/firmware': 'mount --bind /sys t && ls t/firmware | grep .',
    'no /proc/sys that cannot be written': 'umount -l /proc/sys || mount -o remount,bind,rw /proc/sys',
    'what is below /proc/sys': 'mount --bind /proc t && echo x >t/sys/kernel/core_pattern',
    'what is below the root': 'mount --bind / t && ls t/usr/bin/env',
    'the name of the core files': 'echo "|/bin/sh" >/proc/sys/kernel/core_pattern',
    'the number of its namespaces': 'echo 9 >/proc/sys/user/max_net_namespaces',
    'set-user-id programs in the workspace': 'mount -o remount,bind,suid /build || mount -o remount,bind,dev /build',
    'new rights by a program': 'cp /usr/bin/env t/env; chmod u+s t/env; grep -q NoNewPrivs:.0 /proc/self/status',
    // File systems.
    'processes, anew': 'mount -t proc proc t',
    'processes, anew, in a namespace of its own': 'unshare -pf mount -t proc proc t',
    '/sys, anew': 'mount -t sysfs sysfs t',
    'control groups':
      'mount -t cgroup2 none t || mount -t cgroup -o memory none t || unshare -C mount -t cgroup2 none t',
    'what the kernel tells to root':
      'for f in debugfs tracefs securityfs configfs pstore efivarfs; do mount -t $f none t && exit 0; done; exit 1',
    'programs in the kernel': 'mount -t bpf none t',
    'all devices': 'mount -t devtmpfs none t',
    'a disk':
      'mknod disk b 254 0; mknod disk b 8 0; mount -t ext4 /dev/vda t || mount -t ext4 /dev/sda t || mount disk t',
    'a file as a disk': 'head -c 1000000 /dev/zero >image; mount -o loop image t || mount -t ext4 image t',
    'a device on its own file system': 'mount -t tmpfs none t; mknod t/null c 1 3 || mknod t/memory c 1 1',
    'files of others by name, in layers':
      'touch u/x; perl -e \'my ($f, $n, $v) = ("u/x", "trusted.overlay.redirect", "/etc/shadow"); exit(syscall(shift() + 0, $f, $n, $v, 11, 0) == 0 ? 0 : 1)\' $(test $(uname -m) = x86_64 && echo 188 || echo 5)',
    'layers that refer to others':
      'mount -t overlay -o userxattr,metacopy=on,redirect_dir=on,lowerdir=w,upperdir=u,workdir=w none t',
    'a file system of a program': 'test -e /dev/fuse',
    // Namespaces.
    'a network': 'unshare -n true',
    'a control group namespace': 'unshare -C true',
    'another time': 'unshare -T true',
    'the sandbox’s mounts': 'nsenter -t 1 -m true',
    'the sandbox’s users': 'nsenter -t 1 -U true',
    'the sandbox’s network, as its root':
      'nsenter -t 1 -n true || ip link add dummy0 type dummy || ip link set lo down',
    'more IDs':
      'unshare -U sleep 60 & until [ "$(readlink /proc/$!/ns/user)" != "$(readlink /proc/self/ns/user)" ]; do :; done; echo "0 0 65537" >/proc/$!/uid_map; s=$?; kill $!; exit $s',
    // The machine and others.
    'the host name of others': 'hostname other',
    'the clock': 'date -s 2001-01-01',
    'the log of the kernel': 'dmesg || cat /proc/kmsg',
    'system requests': 'echo b >/proc/sysrq-trigger',
    'the memory of the machine': 'head -c 1 /proc/kcore || head -c 1 /dev/mem',
    'the machine through its first process': 'ls /proc/1/root/root || ls /proc/1/cwd/../root',
    'files of the machine': `cat ${outside}/secret || mount --bind ${outside} t`,
    'sandboxes of others': `ls ${stateDir} || cat /tmp/of-neighbour`,
    'processes of others': 'cat /proc/[0-9]*/cmdline 2>/dev/null | tr "\\0" " " | grep "sleep [7]654"',
    'a port of the machine': `perl -MIO::Socket::INET -e 'IO::Socket::INET->new("127.0.0.1:${port}") or die'`,
    'raw packets': "perl -MSocket -e 'socket(S, PF_INET, SOCK_RAW, 1) or die' || perl -e 'socket(S, 17, 3, 0) or die'",
    'rules of the network': "perl -e 'socket(S, 16, 3, 12) or die'",
  };
  const { text } = await sh(
    `grep CapBnd /proc/self/status; ${script(before, '')}\n${script(tries, 'unshare -Urm').replaceAll('try-', 'within-')}`,
    asRoot,
  );
  assert.match(text, allButEleven);
  assert.deepEqual(done(text), [], text);

  // Everything else that the filter refuses is refused to root of a new namespace too: keyrings, BPF, performance counters,
  // files by their number, io_uring, the newer calls for mounts.
  const known = Object.entries(policy.refused)
    .flatMap(([error, calls]) => calls.map((name) => ({ name, error: constants.errno[error as 'EPERM'] })))
    .filter(({ name }) => name in libseccomp.numbers[policy.architectures[machine][0]] && !added.includes(name));
  const [own] = policy.architectures[machine];
  const asked = known.map(({ name }) => `own ${numberOf(own, name)} 0 0 0`).join('\n');
  const calls = await sh(`printf '${asked}\n' | unshare -Urm /programs/calls`, {
    ...asRoot,
    mounts: [{ at: '/programs', layers: [programs] }],
  });
  assert.deepEqual(
    calls.text
      .trim()
      .split('\n')
      .map((answer, index) => [known[index]?.name, Number(answer)]),
    known.map(({ name, error }) => [name, error]),
  );
  for (const name of [
    'keyctl',
    'bpf',
    'perf_event_open',
    'open_by_handle_at',
    'io_uring_setup',
    'pivot_root',
    'fsopen',
  ])
    assert.ok(
      known.some((one) => one.name === name),
      name,
    );
  over.abort();
  assert.equal((await neighbour).reason, 'cancelled');
});

test('namespaces in namespaces end, and so do many of them [promise: image-builds]', { skip }, async (t) => {
  const { sh } = await open(t);
  const deep = 'echo $1 >/tmp/deepest; exec unshare -Ur sh /tmp/deep $(($1 + 1))';
  const { text } = await sh(
    [
      `printf '${deep}\n' >/tmp/deep; sh /tmp/deep 0 2>/dev/null || cat /tmp/deepest`,
      // Each stays as long as its process.
      'all=; for i in $(seq 120); do unshare -U sleep 600 2>/dev/null & all="$all $!"; done; n=0',
      // Where there is no namespace for it, a program does not begin.
      'for p in $all; do until [ "$(cat /proc/$p/comm)" = sleep ] && n=$((n + 1)) || grep -qs "^State:.Z" /proc/$p/status || [ ! -e /proc/$p ]; do :; done; done 2>/dev/null',
      'echo $n; kill $all 2>/dev/null || :; echo fine',
    ].join('\n'),
    asRoot,
  );
  const [deepest, many, fine] = text.trim().split('\n');
  assert.ok(Number(deepest) < 40, text);
  assert.ok(Number(many) > 50 && Number(many) <= 100, text);
  assert.equal(fine, 'fine', text);
});
