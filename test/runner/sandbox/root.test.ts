import assert from 'node:assert/strict';
import { once } from 'node:events';
import { lstatSync } from 'node:fs';
import { chmod, chown, writeFile } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { networkInterfaces } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { run } from '../../../src/shared/lib/processes.ts';
import { firstOwnId, hasOwnIds } from '../../../src/runner/sandbox/own-ids.ts';
import { rootUser, type RunUser } from '../../../src/runner/sandbox/types.ts';
import { open, tree } from './support.ts';
import { putPrograms } from '../../support/busybox.ts';
import { lacks } from '../../support/machine.ts';

const skip = lacks('root', 'tun');
/** own-ids.test.ts runs these tests where owners are not translated. */
const isOwn = hasOwnIds();
const firstOnDisk = isOwn ? firstOwnId : 1_913_000_000;
const app: RunUser = { name: 'app', uid: 70, gid: 71, groups: [5, 80] };

/** The unpacked files of an image, with a shell, a few programs, and files of two users. */
async function imageIn(folder: string): Promise<string> {
  const image = await tree(join(folder, 'image'), { 'data/of-root': '', 'data/of-app': '' });
  await putPrograms(image, ['sh', 'stat', 'cat', 'id', 'touch', 'sleep', 'chown', 'chmod', 'cp', 'mkdir']);
  return image;
}

const changesIn = (kept: string) => ({ below: [join(kept, 'root')], above: [join(kept, 'image-changes')] });

test('root of a sandbox has many users, and the rights over them that it needs', { skip }, async (t) => {
  const { sh, folder, sandboxes } = await open(t);
  assert.equal(sandboxes.hasManyUsers, true);
  const checkout = await tree(join(folder, 'checkout'), { 'mine.txt': 'mine', 'in/deep.txt': '' });
  await sandboxes.adopt(checkout);
  const user = rootUser;
  const { text, exitStatus } = await sh(
    [
      'set -e; id -u; id -g; id -G; pwd; echo $HOME $USER; stat -c %u:%g . ~ /tmp mine.txt in/deep.txt',
      'echo more >>mine.txt; chown 1234:4321 mine.txt; chown -R 65535:65535 in; chmod 4755 in; stat -c %u:%g:%a mine.txt in in/deep.txt',
      'echo hidden >closed; chown 33:33 closed; chmod 0 closed; cat closed; kill -0 1',
      'setpriv --reuid 33 --regid 33 --clear-groups sh -c "id -u; cat closed" 2>&1 || echo not mine',
      'setpriv --reuid 33 --regid 33 --clear-groups sleep 600 & sleep 0.1; kill $! && echo ended another',
      'perl -MIO::Socket::INET -e \'IO::Socket::INET->new(LocalAddr => "127.0.0.1:80", Listen => 1) and print "port 80\\n"\'',
      'mkdir root; cp /bin/true root; setcap cap_net_raw+ep root/true 2>/dev/null; getcap -n root/true 2>/dev/null | grep -c net_raw || :',
    ].join('\n'),
    { user, workspace: { checkout } },
  );
  assert.equal(exitStatus, 0, text);
  const owners = '0:0\n0:0\n0:0\n0:0\n0:0\n';
  const changed = '1234:4321:644\n65535:65535:4755\n65535:65535:644\n';
  const others = 'hidden\n33\ncat: closed: Permission denied\nnot mine\nended another\nport 80\n';
  assert.match(text, new RegExp(`^0\n0\n0\n/build\n/home/build root\n${owners}${changed}${others}`), text);
});

test(
  'a user of an image owns the workspace, its home and what others left, and is nobody else',
  { skip: skip || (isOwn && 'the image is another one for each user') },
  async (t) => {
    const { sh, folder, sandboxes } = await open(t);
    const checkout = await tree(join(folder, 'checkout'), { 'mine.txt': 'mine' });
    const image = await imageIn(folder);
    for (const path of [checkout, image]) await sandboxes.adopt(path);
    await chown(join(image, 'data/of-app'), firstOnDisk + 70, firstOnDisk + 71);
    const kept = join(folder, 'kept');
    const look = 'stat -c "%n %u:%g" . ~ /tmp mine.txt /data/of-root /data/of-app';
    const seen = (own: string) =>
      `. ${own}\n/home/build ${own}\n/tmp ${own}\nmine.txt ${own}\n/data/of-root 0:0\n/data/of-app 70:71\n`;
    const first = await sh(
      `id -u; id -g; id -G; ${look}; echo changed >mine.txt; echo new >new; touch /data/x; echo n >>/data/of-app`,
      {
        image,
        user: app,
        workspace: { checkout },
        onLeft: (left) => left.keepWhole(kept),
      },
    );
    assert.equal(first.text, `70\n71\n71 5 80\n${seen('70:71')}touch: /data/x: Permission denied\n`);
    // What it left belongs to whoever runs next, in an image or not; the image's own files do not.
    const over = [join(kept, 'changes')];
    const next = { workspace: { checkout, over }, image, imageLayers: changesIn(kept) };
    const asRoot = await sh(`${look}; cat mine.txt new /data/of-app`, { ...next, user: rootUser });
    assert.equal(asRoot.text, `${seen('0:0')}changed\nnew\nn\n`);
    const alone = await sh('id -G', { ...next, user: { ...app, groups: [] } });
    assert.equal(alone.text, '71\n');
    const without = await sh('id -u; stat -c %u:%g mine.txt new; echo more >>new && cat new', {
      workspace: { checkout, over },
    });
    assert.equal(without.text, '1000\n1000:1000\n1000:1000\nnew\nmore\n');
    assert.equal(lstatSync(join(kept, 'changes/new')).uid, firstOnDisk);
    assert.equal(lstatSync(join(kept, 'image-changes/data/of-app')).uid, firstOnDisk + 70);
  },
);

test('what root of a sandbox may not do [promise: build-privileges]', { skip }, async (t) => {
  const { sh, folder, stateDir, sandboxes } = await open(t, { network: 'internet' });
  const checkout = await tree(join(folder, 'checkout'), { file: '' });
  await sandboxes.adopt(checkout);
  const outside = await tree(join(folder, 'outside'), { secret: 'secret' });
  await chmod(folder, 0o755);
  const machine = createServer((socket) => void socket.end('reached')).listen(0, '0.0.0.0');
  t.after(() => machine.close());
  await once(machine, 'listening');
  const { port } = machine.address() as AddressInfo;
  const own = Object.values(networkInterfaces()).flatMap((all) => all ?? []);
  const addresses = own.filter(({ family }) => family === 'IPv4').map(({ address }) => address);
  const tries = {
    // Rights.
    capabilities: "grep -E '^Cap(Inh|Prm|Eff|Bnd|Amb)' /proc/self/status | tr -s '\\t\\n' ' '; echo",
    'no new privileges': 'grep NoNewPrivs /proc/self/status',
    'more rights': 'setpriv --bounding-set=+sys_admin true; setpriv --inh-caps=+sys_admin true',
    // Mounts and namespaces.
    'a mount': 'mount -t tmpfs none /tmp',
    'a bind mount': 'mount --bind /usr /tmp',
    'a writable machine': 'mount -o remount,rw,bind /usr',
    'no mount': 'umount /usr',
    'a mount on which programs change their user': 'grep -v nosuid /proc/self/mounts',
    'a mount with devices': "grep -v nodev /proc/self/mounts | grep -v ' /dev'",
    'a user namespace': 'unshare -U true',
    'one more, as another user': 'setpriv --reuid 5 --clear-groups unshare -Ur true',
    'a mount namespace': 'unshare -m true',
    'a network of its own': 'unshare -n true',
    'a process namespace': 'unshare -p -f true',
    'another root, as another user': 'setpriv --reuid 5 --clear-groups chroot / true',
    'another namespace': 'nsenter -m -t 1 true',
    // The kernel would say that there is no such descriptor, the filter says that it may not ask.
    'a call that the filter leaves to builds of images':
      "python3 -c 'import ctypes; c = ctypes.CDLL(None, use_errno=True); exit(c.setns(-1, 0) == -1 and ctypes.get_errno() != 9)'",
    'the number of namespaces': 'echo 9 > /proc/sys/user/max_user_namespaces',
    // The kernel and the machine.
    'the name of the core files': 'echo "|/bin/sh" > /proc/sys/kernel/core_pattern',
    'shared memory': 'echo 1 > /proc/sys/kernel/shm_rmid_forced',
    routes: 'echo 1 > /proc/sys/net/ipv4/ip_forward',
    'system requests': 'echo b > /proc/sysrq-trigger',
    'the log of the kernel': 'dmesg',
    'the clock': 'date -s 2001-01-01',
    'the host name': 'hostname other',
    'a disk': 'mknod disk b 8 0 && cat disk',
    'the memory': 'mknod memory c 1 1 && cat memory',
    'a harmless device': 'mknod null c 1 3 && echo x > null',
    'a control group': 'ls /sys/fs/cgroup',
    'the machine through its first process': 'ls /proc/1/root/root',
    'a network interface': 'ip link add dummy0 type dummy',
    'the rules of its network':
      'nft flush ruleset; nft list ruleset 2>&1 | grep -q permitted && exit 1; ip route add 10.0.0.0/8 dev lo',
    'ports of the machine': `for address in ${addresses.join(' ')}; do perl -MIO::Socket::INET -e 'exit !IO::Socket::INET->new("$ARGV[0]:${port}")' $address && exit; done; exit 1`,
    'raw packets': 'perl -MSocket -e \'socket(S, PF_INET, SOCK_RAW, 1) or die "$!\\n"\'',
    'priority before others': 'nice -n -5 true 2>&1 | grep -q . || exit 0; exit 1',
    'more processes than allowed': 'prlimit --nproc=1000000:1000000 true && prlimit --rtprio=50 true',
    // Files.
    'an owner beyond its own': 'touch f; chown 65536 f',
    "the machine's root as owner": 'touch g; chown 1913000000 g',
    'the programs of the machine': 'touch /usr/bin/x || chmod u+s /usr/bin/sh',
    'who is who': 'echo x >> /etc/passwd',
    'the files of the steps': 'rm -f /dev/shm/headrace/env',
    'files of the machine': `cat ${outside}/secret`,
    'sandboxes of others': `ls ${stateDir}`,
  };
  const script = Object.entries(tries).map(
    ([name, command]) => `echo "[${name}]"; ( ${command} ) >out 2>&1 && { echo "done:"; cat out; }; cat /dev/null >out`,
  );
  const { text } = await sh(script.join('\n'), { user: rootUser, workspace: { checkout } });
  const done = text
    .split(/^\[/m)
    .slice(1)
    .map((part) => part.split(']\n') as [string, string])
    .filter(([, said]) => said !== '');
  const [[, rights] = ['', ''], [, nothingNew] = ['', '']] = done;
  const exactly = [0, 1, 3, 4, 5, 6, 7, 10, 18, 29, 31]
    .reduce((sum, bit) => sum + 2n ** BigInt(bit), 0n)
    .toString(16)
    .padStart(16, '0');
  const none = '0'.repeat(16);
  assert.equal(
    rights,
    `done:\nCapInh: ${none} CapPrm: ${exactly} CapEff: ${exactly} CapBnd: ${exactly} CapAmb: ${none} \n`,
  );
  assert.match(nothingNew, /NoNewPrivs:\t1/);
  assert.deepEqual(done.slice(2), []);
});

/** Ways out of another root that root of a machine has: a directory that was open before, and those of the first process. */
const wayOut = `
use strict;
my $where = sub { my @root = stat '/'; opendir my $all, '/' or die; join ' ', "$root[0]:$root[1]", sort readdir $all };
my $before = $where->();
mkdir 'jail';
mkdir 'jail/deeper';
opendir my $open, '.' or die;
opendir my $top, '/' or die;
chroot 'jail' or die "chroot: $!\n";
-e '/deeper' && !-e '/usr' or die 'still in the old root';
system { '/usr/bin/true' } 'true' and print "no programs\n";
for my $way ( $open, $top ) {
    chroot '/deeper' and chdir $way or die "$!";
    chdir '..' for 1 .. 64;
    chroot '.' or die "chroot: $!\n";
    chdir '/';
    print $where->() eq $before ? "the same\n" : 'elsewhere: ' . $where->() . "\n";
    chroot '/build/jail' or die;
}
chdir $top and chroot '/proc/1/root' and die 'there is no /proc here';
chdir '..' for 1 .. 64;
chroot '.' or die;
for my $link ( '/proc/1/root', '/proc/1/cwd/..', '/proc/self/root/../../..' ) {
    chdir $link and chdir '..' for 1 .. 64;
    chroot '.' or die;
    print $where->() eq $before ? "the same\n" : "elsewhere\n";
}
`;

test('another root leads nowhere but to the own one [promise: build-privileges]', { skip }, async (t) => {
  const { sh, folder, sandboxes } = await open(t);
  const checkout = await tree(join(folder, 'checkout'), { 'out.pl': wayOut });
  const outside = await tree(join(folder, 'outside'), { secret: 'secret' });
  await chmod(folder, 0o755);
  await sandboxes.adopt(checkout);
  const tries = [`cat ${outside}/secret`, 'mount -t tmpfs none /tmp', 'unshare -U true', 'mknod /tmp/d b 8 0'];
  const script = tries.map((one) => `chroot / ${one} 2>/dev/null && echo '${one} works'`);
  const { text } = await sh(['perl out.pl', ...script].join('\n'), { user: rootUser, workspace: { checkout } });
  assert.equal(text, `no programs\n${'the same\n'.repeat(5)}`);
});

test('what root of one build leaves gives no other anything [promise: build-user]', { skip }, async (t) => {
  const { sh, folder, sandboxes } = await open(t);
  const image = await imageIn(folder);
  const checkout = await tree(join(folder, 'checkout'), { file: '' });
  for (const path of [checkout, image]) await sandboxes.adopt(path);
  const kept = join(folder, 'kept');
  const leave = [
    'set -e; for owner in 0 33 70 65535; do cp /bin/busybox busybox-$owner; chown $owner:$owner busybox-$owner; chmod 6755 busybox-$owner; done',
    'cp /bin/busybox /bin/busybox-suid; chmod 6755 /bin/busybox-suid; cp busybox-33 ~; cp busybox-33 /tmp; mkdir /data2; touch /data2/x',
    'echo closed >/data/closed; chmod 0 /data/closed; sleep 1000 & echo left',
  ];
  const left = await sh(leave.join('\n'), {
    image,
    user: rootUser,
    workspace: { checkout },
    onLeft: (files) => files.keepWhole(kept),
  });
  assert.equal(left.text, 'left\n');
  // On the disk nothing of it is anybody's.
  const beyond = ['-not', '-uid', `-${firstOnDisk}`, '-not', '-uid', `+${firstOnDisk + 65_535}`];
  const outside = await run('find', ['changes', 'home', 'tmp', 'image-changes', '-not', '(', ...beyond, ')'], {
    cwd: kept,
  });
  assert.equal(outside.stdout.toString() + outside.stderr.toString(), '');
  const over = [join(kept, 'changes')];
  const programs = '/bin/busybox-suid ./busybox-0 ./busybox-33 ./busybox-65535';
  const again = await sh(
    `for program in ${programs}; do $program id -u; $program id -g; done; cat /data/closed; kill -0 -1 && echo killed; stat -c %u:%g /data2/x busybox-0 busybox-33`,
    { image, imageLayers: changesIn(kept), user: app, workspace: { checkout, over } },
  );
  const refused = "cat: can't open '/data/closed': Permission denied\n";
  // Changes in an image come back to the same user alone; without a translation, they are whoever's runs.
  const inImage = isOwn ? '70:71' : '0:0';
  assert.match(again.text, new RegExp(`^(70\n71\n){4}${refused}(.*kill.*\n)?${inImage}\n70:71\n33:33\n$`), again.text);
  const without = await sh('for program in ./busybox-0 ./busybox-33; do $program id -u; done', {
    workspace: { checkout, over },
  });
  assert.equal(without.text, '1000\n1000\n');
});

test(
  'files with capabilities give nobody any, and signals reach no other run [promise: build-user]',
  { skip },
  async (t) => {
    const { sh, folder, sandboxes } = await open(t);
    const checkout = await tree(join(folder, 'checkout'), { file: '' });
    await sandboxes.adopt(checkout);
    const kept = join(folder, 'kept');
    // All capabilities, permitted and effective, in both forms that the kernel knows.
    const mark = `python3 -c '
import os, struct, sys
full = (0xffffffff, 0, 0xffffffff, 0)
for name, value in (("two", struct.pack("<I4I", 0x02000001, *full)), ("three", struct.pack("<I5I", 0x03000001, *full, 0))):
    try: os.setxattr(name, "security.capability", value); print(name, "set")
    except OSError as error: print(name, error.strerror)
'`;
    const look = (name: string): string => `./${name} CapEff /proc/self/status`;
    const as = (uid: number, command: string): string =>
      `setpriv --reuid ${uid} --regid ${uid} --clear-groups ${command}`;
    const own = await sh(
      `for f in two three; do cp /bin/grep $f; done; ${mark}; ${as(33, look('two'))}; ${as(33, look('three'))}; ${look('two')}`,
      { user: rootUser, workspace: { checkout }, onLeft: (left) => left.keepWhole(kept) },
    );
    const nothing = `CapEff:\t${'0'.repeat(16)}\n`;
    assert.match(
      own.text,
      new RegExp(`^two set\nthree .*\n${nothing}${nothing}CapEff:\t00000000a00404fb\n$`),
      own.text,
    );
    const workspace = { checkout, over: [join(kept, 'changes')] };
    for (const user of [app, undefined])
      assert.equal((await sh(`${look('two')}; ${look('three')}`, { user, workspace })).text, nothing.repeat(2));

    // Each has a range and processes of its own: whoever signals everybody is left alone.
    const directory = await tree(join(folder, 'directory'), { file: '' });
    await sandboxes.adopt(directory);
    const begun = Promise.withResolvers<void>();
    let heard = '';
    const other = sh('cat /proc/self/uid_map; echo begun; while [ ! -e go ]; do sleep 0.02; done; echo unharmed', {
      user: rootUser,
      workspace: { directory },
      output: (chunk) => {
        heard += chunk.toString();
        if (heard.includes('begun')) begun.resolve();
      },
    });
    await begun.promise;
    const all =
      'kill -KILL -1; for pid in $(seq 2 3000); do [ $pid = $$ ] || kill -KILL $pid; done 2>/dev/null; echo alone';
    const ids = (text: string): string => /^ *0 +(\d+) +65536$/m.exec(text)?.[1] ?? assert.fail(text);
    const { text } = await sh(`cat /proc/self/uid_map; ${all}`, { user: rootUser });
    assert.match(text, /alone/);
    if (!isOwn) assert.ok(Math.abs(Number(ids(text)) - Number(ids(heard))) >= 65_536, 'both have the same IDs');
    await writeFile(join(directory, 'go'), '');
    await other;
    assert.match(heard, /\nbegun\nunharmed\n$/);
  },
);
