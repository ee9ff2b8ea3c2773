import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, readdirSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { join } from 'node:path';
import { after, before, beforeEach, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { createTlsTrust } from '../../src/shared/lib/tls-trust.ts';
import { keepReserve } from '../../src/shared/lib/disk-reserve.ts';
import { run as runProgram } from '../../src/shared/lib/processes.ts';
import { removeTree } from '../../src/shared/lib/remove-tree.ts';
import type { RegistryAccess } from '../../src/shared/protocol/index.ts';
import { openImages, type Images, type ImagesOptions } from '../../src/runner/images/images.ts';
import { rootUser, type Job, type Sandboxes } from '../../src/runner/sandbox/types.ts';
import { openSandboxes } from '../../src/runner/sandbox/index.ts';
import { temporaryFolder } from '../support/databases.ts';
import { startFakeRegistry, type FakeRegistry } from '../support/fake-registry.ts';
import { longestWait } from '../support/pauses.ts';
import { architecture, imageOf, shellLayer, startRegistry, type TestRegistry } from '../support/registry.ts';
import type { TarEntry } from '../support/tar.ts';

/** Real images from a real registry, in real sandboxes. */
describe('images', () => {
  const folder = temporaryFolder();
  const never = new AbortController().signal;
  let registry: TestRegistry;
  let sandboxes: Sandboxes;
  let images: Images;
  let access: RegistryAccess;
  let fake: FakeRegistry;
  let said = '';
  /** The programs that were started for images. */
  let ran: string[] = [];
  before(async () => {
    registry = await startRegistry();
    fake = await startFakeRegistry();
    sandboxes = await openSandboxes({
      stateDir: join(folder, 'sandboxes'),
      network: 'none',
      isolation: 'required',
      etc: 'bare',
      log: () => {},
    });
    images = await open();
  });
  after(async () => {
    await sandboxes?.close();
    await registry?.close();
    await fake?.close();
    await removeTree(folder);
  });

  beforeEach(() => void (access = { host: registry.host, ...registry.user }));

  const store = join(folder, 'images');
  const open = (changes: Partial<ImagesOptions> = {}): Promise<Images> =>
    openImages({
      folder: store,
      sockets: join(folder, 'sockets'),
      link: { registry: async () => access },
      sandboxes,
      toolSandboxes: { ...sandboxes, run: (job) => sandboxes.run((ran.push(job.steps[0]?.name ?? ''), job)) },
      allow: ['127.0.0.0/8'],
      imageBytes: 256 * 1024 * 1024,
      mostBytes: 1024 ** 3,
      timeoutMs: longestWait,
      disk: keepReserve({ folders: [folder], bytes: 0 }),
      log: () => {},
      ...changes,
    });
  const take = (reference: string, accountId = '1', from = images) => {
    said = '';
    ran = [];
    return from.take({ reference, accountId }, { id: 'claim', writeLog: (text) => void (said += text), signal: never });
  };
  const run = async (image: string | undefined, command: string, changes: Partial<Job> = {}) => {
    const heard: Buffer[] = [];
    const ended = await sandboxes.run({
      id: `run-${Math.random().toString(36).slice(2)}`,
      steps: [{ name: 'command', command: `set +e; ${command}` }],
      environment: {},
      workspace: { empty: true },
      image,
      limits: { memoryBytes: 256 * 1024 * 1024, processes: 64, timeoutMs: longestWait },
      output: (chunk) => void heard.push(chunk),
      signal: never,
      ...changes,
    });
    return { ...ended, text: Buffer.concat(heard).toString() };
  };
  const failsWith = (reason: string, words: RegExp) => (error: Error & { reason?: string }) => {
    assert.equal(error.reason, reason, error.message);
    assert.match(error.message, words);
    return true;
  };

  test('a command runs in the files of its image', async () => {
    const layers: TarEntry[][] = [
      shellLayer(),
      [
        { name: 'etc/motd', content: 'made for this\n' },
        // The link leads to a file of the image, as it does for its programs, and the other one to nothing.
        { name: 'etc/passwd', type: 'symbolic link', target: '/lib/passwd' },
        { name: 'etc/group', type: 'symbolic link', target: '../../../../../../../../etc/group' },
        { name: 'lib/passwd', content: 'root:x:0:0::/root:/bin/sh\napp:x:70:71::/srv:/bin/sh\n' },
      ],
    ];
    const config = {
      User: 'app',
      WorkingDir: 'srv/app',
      Entrypoint: ['/bin/app', 'run'],
      ExposedPorts: { '8080/tcp': {} },
    };
    const options = { env: ['COLOUR=green', 'HOME=/root'], config };
    const digest = await registry.push('team/app', '1', imageOf(layers, options));
    using image = await take(`${registry.host}/team/app:1`);
    assert.deepEqual(image.configuration, {
      user: { name: 'app', uid: 70, gid: 71, groups: [] },
      withoutRoot: { name: 'app', uid: 70, gid: 71, groups: [] },
      environment: { COLOUR: 'green' },
      directory: '/srv/app',
      entrypoint: ['/bin/app', 'run'],
      command: [],
      ports: [8080],
      accounts: {
        passwd: 'root:x:0:0::/root:/bin/sh\napp:x:70:71::/srv:/bin/sh\nbuild:x:1000:1000:build:/home/build:/bin/sh\n',
        group: 'build:x:1000:\n',
      },
    });
    assert.match(said, new RegExp(`${registry.host}/team/app:1 \\(${digest}\\)`));
    const user = image.configuration.user;
    const { text, exitStatus } = await run(image.tree, 'cat /etc/motd; ls /; pwd; id -un; id -u', { user });
    assert.equal(exitStatus, 0, text);
    assert.match(text, /^made for this\nbin\nbuild\ndev\netc\nhome\nlib\nproc\nrun\ntmp\nvar\n\/build\napp\n70\n$/);
  });

  test('the second run in an image fetches nothing, and changes of the first are gone', async () => {
    const reference = `${registry.host}/team/again:1`;
    await registry.push(
      'team/again',
      '1',
      imageOf([[...shellLayer(), { name: 'go/', type: 'directory', mode: 0o777 }]]),
    );
    {
      using image = await take(reference);
      assert.equal((await run(image.tree, 'touch /go/mine /etc/mine && rm /bin/mount')).exitStatus, 0);
    }
    const before = readdirSync(store);
    using image = await take(reference);
    assert.deepEqual(readdirSync(store), before);
    assert.equal(
      (await run(image.tree, 'ls /go; ls /etc/mine; ls /bin/mount')).text,
      'ls: /etc/mine: No such file or directory\n/bin/mount\n',
    );
  });

  test('for who has had an image no program is started, and a tag that has moved is followed', async () => {
    const reference = `${registry.host}/team/moving:1`;
    const version = (content: string) => imageOf([shellLayer(), [{ name: 'version', content }]]);
    const first = await registry.push('team/moving', '1', version('one'));
    (await take(reference))[Symbol.dispose]();
    assert.deepEqual(ran, ['skopeo', 'skopeo', 'unpack', 'shell']);
    {
      using again = await take(reference);
      assert.deepEqual(ran, []);
      assert.match(said, new RegExp(`^Image ${registry.host}/team/moving:1 \\(${first}\\)\n$`));
      assert.equal((await run(again.tree, 'cat /version')).text, 'one');
    }
    // Another account has to pull it for itself, though not its bytes.
    (await take(reference, 'second'))[Symbol.dispose]();
    assert.deepEqual(ran, ['skopeo']);
    await registry.push('team/moving', '1', version('two'));
    using moved = await take(reference);
    assert.equal((await run(moved.tree, 'cat /version')).text, 'two');
  });

  test('the digest of an image is looked up without pulling it, and is what the next run would have', async () => {
    const [one, two] = ['1', '2'].map((content) => imageOf([shellLayer(), [{ name: 'looked', content }]]));
    assert.ok(one && two);
    const first = await registry.push('team/looked', '1', one);
    const reference = `${registry.host}/team/looked:1`;
    const lookUp = (accountId: string, of = reference, from = images): Promise<string> => {
      ran = [];
      return from.lookUp({ reference: of, accountId }, { id: 'claim', signal: never });
    };
    const stored = readdirSync(store).toSorted();
    assert.equal(await lookUp('new'), first);
    assert.deepEqual(ran, [], 'no program is started');
    assert.deepEqual(readdirSync(store).toSorted(), stored, 'nothing is pulled');
    (await take(reference, 'owner'))[Symbol.dispose]();
    const second = await registry.push('team/looked', '1', two);
    assert.equal(await lookUp('owner'), second, 'a tag that has moved is followed');
    const pinned = `${registry.host}/team/looked@${first}`;
    assert.equal(await lookUp('new', pinned), first);
    await assert.rejects(
      lookUp('new', `${registry.host}/team/looked@sha256:${'0'.repeat(64)}`),
      failsWith('image_not_found', /no such/),
    );
    await registry.stop();
    try {
      // The next run of this account would have what it had last. Others would have none.
      assert.equal(await lookUp('owner'), first);
      assert.equal(await lookUp('owner', reference, await open()), first, 'also after a restart');
      await assert.rejects(lookUp('new'), failsWith('registry_unreachable', /does not answer/));
      await assert.rejects(lookUp('new', pinned), failsWith('registry_unreachable', /does not answer/));
    } finally {
      await registry.start();
    }
    access = { ...access, password: 'wrong' };
    await assert.rejects(lookUp('owner'), failsWith('image_access_refused', /credentials/));
    await registry.stop();
    try {
      await assert.rejects(lookUp('owner'), failsWith('registry_unreachable', /does not answer/), 'refused once');
    } finally {
      await registry.start();
    }
    await assert.rejects(
      lookUp('owner', `${registry.host}/UPPER`),
      failsWith('image_invalid', /is not an image reference/),
    );
  });

  test('a digest needs no registry once its account has had it [promise: image-accounts]', async () => {
    const digest = await registry.push('team/fixed', '1', imageOf([shellLayer(), [{ name: 'fixed', content: 'f' }]]));
    const reference = `${registry.host}/team/fixed@${digest}`;
    (await take(reference, 'owner'))[Symbol.dispose]();
    await registry.stop();
    try {
      using image = await take(reference, 'owner', await open({ link: { registry: () => assert.fail('not asked') } }));
      assert.deepEqual(ran, []);
      assert.equal(said, `Image ${reference} (${digest})\n`);
      assert.equal((await run(image.tree, 'cat /fixed')).text, 'f');
      await assert.rejects(take(reference, 'neighbour'), failsWith('registry_unreachable', /does not answer/));
    } finally {
      await registry.start();
    }
  });

  test('a registry that wants a token is asked with one, and its password goes nowhere else [promise: registry-addresses]', async (t) => {
    const image = imageOf([shellLayer(), [{ name: 'token', content: 't' }]]);
    const digest = `sha256:${createHash('sha256').update(image.manifest).digest('hex')}`;
    const parts = new Map(
      [...image.layers, image.config].map((bytes) => [createHash('sha256').update(bytes).digest('hex'), bytes]),
    );
    const basic = `Basic ${Buffer.from('u:p').toString('base64')}`;
    let realm = `https://${fake.host}/token`;
    const type = 'application/vnd.oci.image.manifest.v1+json';
    fake.answer = (request, response) => {
      const path = request.url ?? '';
      const seen = request.headers.authorization;
      const part = path.includes('/manifests/') ? image.manifest : parts.get(path.slice(-64));
      if (path.startsWith('/token?'))
        response.writeHead(seen === basic ? 200 : 401).end(JSON.stringify({ token: 'let-in' }));
      else if (seen !== 'Bearer let-in')
        response.writeHead(401, { 'www-authenticate': `Bearer realm="${realm}",service="s"` }).end();
      else if (path === '/v2/' || part)
        response.writeHead(200, { 'content-type': type, 'docker-content-digest': digest }).end(part);
      else response.writeHead(404).end();
    };
    access = { host: fake.host, username: 'u', password: 'p' };
    const reference = `${fake.host}/team/token:1`;
    (await take(reference))[Symbol.dispose]();
    fake.calls.length = 0;
    (await take(reference))[Symbol.dispose]();
    assert.deepEqual(ran, []);
    const asked = fake.calls.map((call) => decodeURIComponent(call.replace(fake.host, '')));
    assert.deepEqual(asked, [
      '/v2/team/token/manifests/1',
      '/token?service=s&scope=repository:team/token:pull',
      '/v2/team/token/manifests/1',
    ]);
    // With another password the image is refused, though the runner has it.
    access = { ...access, password: 'changed' };
    await assert.rejects(take(reference, 'stranger'), failsWith('image_access_refused', /credentials/));
    await assert.rejects(take(reference), failsWith('image_access_refused', /credentials/));
    if (fake.elsewhere === undefined) return t.skip('this machine has no other address');
    access = { ...access, password: 'p' };
    (await take(reference))[Symbol.dispose]();
    realm = `https://${fake.elsewhere}/token`;
    fake.calls.length = 0;
    await assert.rejects(take(reference), failsWith('registry_not_allowed', /leads to, an address/));
    assert.ok(!fake.calls.some((call) => call.startsWith(fake.elsewhere ?? '')));
  });

  test('whatever an image has at them, the places of the sandbox are its own [promise: image-places]', async () => {
    const link = (name: string, target: string): TarEntry => ({ name, type: 'symbolic link', target });
    const hostile: TarEntry[] = [
      link('build', '/etc'),
      link('home', '/etc'),
      link('var', '/proc'),
      link('opt', '/etc'),
      link('run', '/proc/1/root'),
      { name: 'tmp', content: 'a file' },
      { name: 'proc', type: 'pipe' },
      { name: 'dev/null', content: 'no device' },
      { name: 'dev/sda', type: 'block device' },
      { name: 'etc/passwd', type: 'character device' },
      link('etc/hosts', '/proc/self/environ'),
      { name: 'etc/group/', type: 'directory' },
      link('etc/hostname', '../../../../../etc/hostname'),
      { name: 'pipe', type: 'pipe' },
      { name: 'sbin/su', content: 'x', mode: 0o6755 },
      { name: 'data/disk', type: 'block device' },
      link('data/shadow', '/etc/shadow'),
    ];
    await registry.push('team/hostile', '1', imageOf([shellLayer(), hostile]));
    using image = await take(`${registry.host}/team/hostile:1`);
    const software = join(folder, 'software');
    mkdirSync(software, { recursive: true });
    writeFileSync(join(software, 'here'), 'software\n');
    const script = [
      'cd /build && touch /build/w /home/build/w /tmp/w && ls /build /home/build /tmp',
      'cat /etc/hosts | head -n 1; head -n 2 /etc/passwd; cat /etc/group | head -n 1; cat /etc/hostname',
      'readlink /var/tmp; ls /run /proc/self/comm /opt/prefix/here; echo x >/dev/null && ls -d /dev/sda /pipe',
      'ls /usr /lib; cat /data/shadow /data/disk; mount',
    ].join('; ');
    const mounts = [{ at: '/opt/prefix', layers: [software] }];
    const { text } = await run(image.tree, script, { mounts, user: rootUser });
    const expected = [
      '/build:',
      'w',
      '',
      '/home/build:',
      'w',
      '',
      '/tmp:',
      'w',
      '127.0.0.1 localhost build',
      // Who is who is the image's to say; where it has a device, there is a file with what every image gets.
      'root:x:0:0:root:/root:/bin/sh',
      'cat: read error: Is a directory',
      'build',
      '/tmp',
    ];
    assert.ok(text.startsWith(`${expected.join('\n')}\n`), text);
    assert.match(text, /^\/opt\/prefix\/here$/m);
    for (const name of ['/dev/sda', '/pipe', '/usr', '/lib'])
      assert.match(text, new RegExp(`ls: ${name}: No such file`), name);
    assert.match(text, /cat: can't open '\/data\/shadow'/);
    // Set-user-id files and devices of an image do nothing: no mount of it allows them.
    const shown = text.split('\n').filter((line) => line.startsWith('overlay on '));
    assert.ok(shown.length >= 4, text);
    for (const line of shown) assert.match(line, /\(rw,nosuid,nodev,/);
  });

  test('layers cannot write outside of the image, and remove what they say they remove [promise: image-unpacking]', async () => {
    const first: TarEntry[] = [
      { name: 'kept/a', content: 'a' },
      { name: 'gone/b', content: 'b' },
      { name: 'hidden/c', content: 'c' },
      { name: 'out', type: 'symbolic link', target: '/../../../../../../../../../../../../../../tmp' },
    ];
    const second: TarEntry[] = [
      { name: '.wh.gone' },
      { name: 'hidden/.wh..wh..opq' },
      { name: 'hidden/d', content: 'd' },
      { name: '../../../../../../../../../../tmp/headrace-escaped-1', content: 'x' },
      { name: '/tmp/headrace-escaped-2', content: 'x' },
      { name: 'out/headrace-escaped-3', content: 'x' },
      { name: '../.wh.accounts' },
    ];
    await registry.push('team/layers', '1', imageOf([shellLayer(), first, second]));
    using image = await take(`${registry.host}/team/layers:1`);
    assert.deepEqual(
      readdirSync('/tmp').filter((name) => name.startsWith('headrace-escaped')),
      [],
    );
    const { text } = await run(image.tree, 'ls /kept /hidden; ls /gone');
    assert.equal(text, '/hidden:\nd\n\n/kept:\na\nls: /gone: No such file or directory\n');
    assert.ok(existsSync(join(image.tree, '..', 'accounts')));
  });

  test('a file of an owner beyond those that a build has is refused, by name [promise: build-user]', async () => {
    const far: TarEntry[] = [{ name: 'far', content: '', owner: [0, 65_536] }];
    await registry.push('team/far', '1', imageOf([shellLayer(), far]));
    await assert.rejects(take(`${registry.host}/team/far:1`), failsWith('image_invalid', /far/));
  });

  test('an unpacker that was taken over gains nothing [promise: image-unpacking]', async () => {
    // What it would like to have instead of the image: files of the machine that would do for one.
    const target = join(folder, 'machine');
    mkdirSync(join(target, 'bin'), { recursive: true });
    writeFileSync(join(target, 'secret'), 'of the machine');
    cpSync('/bin/busybox', join(target, 'bin/sh'));
    cpSync('/bin/busybox', join(target, 'bin/cat'));
    const reference = `${registry.host}/team/taken-over:1`;
    await registry.push('team/taken-over', '1', imageOf([shellLayer()]));
    const place = join(folder, 'taken-over');
    for (const deed of [
      `ln -s ${target} /build/tree`,
      `rm -rf /build/* /build; mv /build /gone; rmdir /build; ln -s ${target} /build`,
      `rm -rf /build/*; for name in bin secret opt; do ln -s ${target}/$name /build/$name; done`,
      `rm -rf /build/*; chmod 0 /build`,
    ]) {
      const toolSandboxes: Sandboxes = {
        ...sandboxes,
        run: (job) =>
          sandboxes.run({
            ...job,
            steps: job.steps.map((step) =>
              step.name === 'unpack'
                ? { ...step, command: `set +e; ${deed}; ${step.command.replace('exec ', '')}; ${deed}; true` }
                : step,
            ),
          }),
      };
      const taken = await take(reference, '1', await open({ folder: place, toolSandboxes })).catch(
        (error: Error) => error,
      );
      if (taken instanceof Error)
        assert.match(taken.message, /The image has no \/bin\/sh|a link stands in its way/, deed);
      else {
        const { text } = await run(taken.tree, 'cat /secret /tree/secret');
        assert.doesNotMatch(text, /of the machine/, deed);
        taken[Symbol.dispose]();
      }
      await removeTree(place);
    }
  });

  test('an image whose files are a link is not used, and pulled again [promise: image-unpacking]', async () => {
    const reference = `${registry.host}/team/replaced:1`;
    await registry.push('team/replaced', '1', imageOf([shellLayer(), [{ name: 'mine', content: 'mine' }]]));
    const place = join(folder, 'replaced');
    using image = await take(reference, '1', await open({ folder: place }));
    renameSync(image.tree, `${image.tree}.away`);
    symlinkSync('/', image.tree);
    await assert.rejects(run(image.tree, 'cat /mine'), /a link stands in its way/);
    using again = await take(reference, '1', await open({ folder: place }));
    assert.ok(ran.includes('unpack'));
    assert.equal((await run(again.tree, 'cat /mine')).text, 'mine');
  });

  test('who the registry does not let have an image does not get it from the runner [promise: image-accounts]', async () => {
    const reference = `${registry.host}/team/private:1`;
    await registry.push('team/private', '1', imageOf([shellLayer(), [{ name: 'secret', content: 's' }]]));
    using _ = await take(reference, 'owner');
    const good = access;
    try {
      access = { host: registry.host };
      await assert.rejects(take(reference, 'neighbour'), failsWith('image_access_refused', /credentials/));
      access = { ...good, password: 'wrong' };
      await assert.rejects(take(reference, 'neighbour'), failsWith('image_access_refused', /credentials/));
      // Nor once the registry is away.
      await registry.stop();
      await assert.rejects(take(reference, 'neighbour'), failsWith('registry_unreachable', /does not answer/));
      // The owner goes on, also with a runner that was started since.
      access = good;
      using last = await take(reference, 'owner', await open());
      assert.match(said, /does not answer.*the image that this account used last: .*team\/private:1 \(sha256:/);
      assert.equal((await run(last.tree, 'cat /secret')).text, 's');
      await assert.rejects(take(`${registry.host}/team/app:1`, 'owner'), failsWith('registry_unreachable', /does not/));
    } finally {
      access = good;
      await registry.start();
    }
    // Whom the registry once refused, it has to let in again first.
    access = { host: registry.host };
    await assert.rejects(take(reference, 'owner'), failsWith('image_access_refused', /credentials/));
    access = good;
    await registry.stop();
    try {
      await assert.rejects(take(reference, 'owner'), failsWith('registry_unreachable', /does not answer/));
    } finally {
      await registry.start();
    }
  });

  test('a registry of somebody else does not open what the runner has of another [promise: image-accounts]', async () => {
    const image = imageOf([shellLayer(), [{ name: 'secret', content: 'of a team' }]]);
    await registry.push('team/copied', '1', image);
    using _ = await take(`${registry.host}/team/copied:1`, 'owner');
    // It knows the manifest, and none of the layers.
    fake.answer = (request, response) => {
      if (request.url?.includes('/manifests/'))
        response.writeHead(200, { 'content-type': 'application/vnd.oci.image.manifest.v1+json' }).end(image.manifest);
      else response.writeHead(request.url === '/v2/' ? 200 : 404).end();
    };
    access = { host: fake.host };
    await assert.rejects(take(`${fake.host}/team/copied:1`, 'thief'), failsWith('image_not_found', /no such image/));
  });

  test('what fails is said in words', async () => {
    await assert.rejects(
      take(`${registry.host}/team/none:1`),
      failsWith('image_not_found', /^Image 127\.0\.0\.1:\d+\/team\/none:1: The registry .*: it has no such image\.$/),
    );
    await registry.push('team/bare', '1', imageOf([[{ name: 'hello', content: 'x' }]]));
    await assert.rejects(take(`${registry.host}/team/bare:1`), failsWith('image_without_shell', /no \/bin\/sh/));
    await registry.push('team/far', '1', imageOf([shellLayer()], { architecture: 's390x' }));
    await assert.rejects(
      take(`${registry.host}/team/far:1`),
      failsWith('image_wrong_architecture', /linux\/s390x.*this runner is linux/),
    );
    const odd = imageOf([shellLayer()]);
    const manifest = odd.manifest.toString().replace('tar+gzip', 'tar+lzip');
    await registry.push('team/odd', '1', { ...odd, manifest: Buffer.from(manifest) });
    await assert.rejects(take(`${registry.host}/team/odd:1`), failsWith('image_invalid', /tar\+lzip/));
    const lacking = { allows: async () => false };
    await registry.push('team/roomy', '1', imageOf([shellLayer(), [{ name: 'r', content: '1' }]]));
    await assert.rejects(
      take(`${registry.host}/team/roomy:1`, '1', await open({ folder: join(folder, 'no-room'), disk: lacking })),
      failsWith('disk_full', /not enough room/),
    );
    const impossible = await open({ sandboxes: { whyNoImages: 'builds are not isolated' } });
    await assert.rejects(take('a:1', '1', impossible), failsWith('images_not_possible', /not isolated/));
    assert.deepEqual(
      readdirSync(store).filter((name) => name.startsWith('making')),
      [],
    );
    assert.deepEqual(readdirSync(join(folder, 'sockets')), []);
  });

  test('layers may be packed with zstd, and are checked all the same [promise: image-digests]', async () => {
    const layers = [shellLayer(), [{ name: 'packed', content: 'tightly' }]];
    const image = imageOf(layers, { packing: 'zstd' });
    await registry.push('team/tight', '1', image);
    using taken = await take(`${registry.host}/team/tight:1`);
    assert.equal((await run(taken.tree, 'cat /packed')).text, 'tightly');
    // Its configuration says that other bytes are in the layers.
    const other = imageOf([shellLayer(), [{ name: 'packed', content: 'loosely' }]], { packing: 'zstd' });
    const digest = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');
    const swapped = image.manifest
      .toString()
      .replace(digest(image.config), digest(other.config))
      .replace(`"size":${image.config.length}`, `"size":${other.config.length}`);
    await registry.push('team/tight', '2', { ...image, config: other.config, manifest: Buffer.from(swapped) });
    await assert.rejects(
      take(`${registry.host}/team/tight:2`),
      failsWith('image_invalid', /does not match its description/),
    );
  });

  test('an index leads to the image for this machine, by its tag and by its digest', async () => {
    const ours = imageOf([shellLayer(), [{ name: 'which', content: 'good' }]]);
    const theirs = imageOf([shellLayer()], { architecture: 's390x' });
    const good = await registry.push('team/many', 'good', ours);
    const other = await registry.push('team/many', 'other', theirs);
    const type = 'application/vnd.oci.image.index.v1+json';
    const entry = (digest: string, made: string) => ({
      mediaType: 'application/vnd.oci.image.manifest.v1+json',
      digest,
      size: (digest === good ? ours : theirs).manifest.length,
      platform: { os: 'linux', architecture: made },
    });
    const indexOf = (...manifests: object[]) => JSON.stringify({ schemaVersion: 2, mediaType: type, manifests });
    const digest = await registry.pushManifest(
      'team/many',
      '1',
      type,
      indexOf(entry(other, 's390x'), entry(good, architecture)),
    );
    for (const reference of [`${registry.host}/team/many:1`, `${registry.host}/team/many@${digest}`]) {
      using image = await take(reference);
      assert.equal((await run(image.tree, 'cat /which')).text, 'good');
    }
    await registry.pushManifest('team/many', '2', type, indexOf(entry(other, 's390x')));
    await assert.rejects(take(`${registry.host}/team/many:2`), failsWith('image_wrong_architecture', /it has nothing/));
  });

  test('bytes that do not have their digest are refused [promise: image-digests]', async () => {
    const image = imageOf([shellLayer(), [{ name: 'x', content: 'x' }]]);
    const other = imageOf([shellLayer(), [{ name: 'y', content: 'y' }]]);
    const digest = `sha256:${createHash('sha256').update(image.manifest).digest('hex')}`;
    const layer = `sha256:${createHash('sha256')
      .update(image.layers[1] ?? '')
      .digest('hex')}`;
    const parts = [...image.layers, image.config].map((bytes): [string, Buffer] => [
      `sha256:${createHash('sha256').update(bytes).digest('hex')}`,
      bytes,
    ]);
    let sent = other.manifest;
    fake.answer = (request, response) => {
      const path = request.url ?? '';
      const [, part] = parts.find(([name]) => path.endsWith(name)) ?? [];
      if (path.includes('/manifests/'))
        response.writeHead(200, { 'content-type': 'application/vnd.oci.image.manifest.v1+json' }).end(sent);
      else if (path.endsWith(layer)) response.writeHead(200).end(other.layers[1]);
      else response.writeHead(path === '/v2/' || part ? 200 : 404).end(part);
    };
    access = { host: fake.host };
    const reference = `${fake.host}/team/wrong@${digest}`;
    await assert.rejects(take(reference), failsWith('image_digest_mismatch', /digest/));
    sent = image.manifest;
    await assert.rejects(take(reference), failsWith('image_digest_mismatch', /digest/));
  });

  test('what the program says that talked to the registry counts only with its digest [promise: image-digests]', async () => {
    const ours = imageOf([shellLayer()], { env: ['COLOUR=green'] });
    const digest = await registry.push('team/told', 'one', ours);
    const type = 'application/vnd.oci.image.index.v1+json';
    const entry = { mediaType: 'application/vnd.oci.image.manifest.v1+json', digest, size: ours.manifest.length };
    const manifests = [{ ...entry, platform: { os: 'linux', architecture } }];
    await registry.pushManifest('team/told', 'all', type, JSON.stringify({ schemaVersion: 2, manifests }));
    const telling = (from: string, to: string): Promise<Images> =>
      open({
        folder: join(folder, 'told'),
        toolSandboxes: {
          ...sandboxes,
          run: (job) =>
            sandboxes.run({ ...job, output: (chunk) => job.output(Buffer.from(chunk.toString().replace(from, to))) }),
        },
      });
    for (const [tag, from, to] of [
      ['one', 'COLOUR=green', 'COLOUR=brown'],
      ['all', '"layers":', '"layers" :'],
    ] as const)
      await assert.rejects(
        take(`${registry.host}/team/told:${tag}`, '1', await telling(from, to)),
        failsWith('image_digest_mismatch', /digest/),
      );
    (await take(`${registry.host}/team/told:all`, '1', await telling('', '')))[Symbol.dispose]();
  });

  test('an unpacker that crashes once begins again, with nothing of what it had', async () => {
    const crash = `umoci() {
      if [ -e /tmp/crashed ]; then command umoci "$@"; else touch /tmp/crashed /build/left; echo 'panic: a race'; return 2; fi
    }`;
    const crashing = await open({
      folder: join(folder, 'crashing'),
      toolSandboxes: {
        ...sandboxes,
        run: (job) =>
          sandboxes.run({
            ...job,
            steps: job.steps.map((step) => ({ ...step, command: `${crash}\n${step.command}` })),
          }),
      },
    });
    await registry.push('team/whole', '1', imageOf([shellLayer()]));
    using image = await take(`${registry.host}/team/whole:1`, '1', crashing);
    assert.ok(existsSync(join(image.tree, 'bin', 'busybox')) && !existsSync(join(image.tree, 'left')));
  });

  test('an image that unpacks to too much is ended, and nothing of it stays [promise: image-limits]', async () => {
    const small = await open({ imageBytes: 16 * 1024 * 1024, folder: join(folder, 'small') });
    const one = imageOf([shellLayer(), [{ name: 'huge', content: Buffer.alloc(24 * 1024 * 1024) }]]);
    await registry.push('team/huge', 'one', one);
    const many = Array.from({ length: 24 }, (_, at) => ({ name: `part-${at}`, content: Buffer.alloc(1024 * 1024) }));
    await registry.push('team/huge', 'many', imageOf([shellLayer(), many]));
    for (const tag of ['one', 'many'])
      await assert.rejects(
        take(`${registry.host}/team/huge:${tag}`, '1', small),
        failsWith('image_too_large', /larger than 16 MB \(HEADRACE_IMAGE_SIZE\)/),
      );
    assert.deepEqual(readdirSync(join(folder, 'small')), []);
  });

  test('a registry is trusted by the certificates that the operator adds', async () => {
    const own = await startRegistry({ isTrusted: false });
    try {
      access = { host: own.host, ...own.user };
      await own.push('team/own', 'a', imageOf([shellLayer()]));
      const [place, reference] = [join(folder, 'own'), `${own.host}/team/own:a`];
      const distrustful = await open({ folder: place });
      await assert.rejects(take(reference, '1', distrustful), { reason: 'registry_untrusted' });
      const trusting = await open({ folder: place, trust: createTlsTrust(own.certificate) });
      (await take(reference, '1', trusting))[Symbol.dispose]();
      (await take(reference, '1', trusting))[Symbol.dispose]();
      assert.ok(!ran.includes('skopeo'), 'it is asked by this process, which trusts it too');
    } finally {
      await own.close();
    }
  });

  test('what was not used for longest is removed first', async () => {
    const place = join(folder, 'few');
    const few = await open({ mostBytes: 5 * 1024 * 1024, folder: place });
    for (const name of ['a', 'b', 'c']) {
      await registry.push('team/few', name, imageOf([shellLayer(), [{ name: 'name', content: name }]]));
      using image = await take(`${registry.host}/team/few:${name}`, '1', few);
      assert.ok(existsSync(image.tree));
    }
    using held = await take(`${registry.host}/team/few:c`, '1', few);
    const names = async () => {
      const all = await readdir(place);
      const kept = await Promise.all(
        all.map((name) => readFile(join(place, name, 'tree/name'), 'utf8').catch(() => '')),
      );
      return kept.toSorted();
    };
    while ((await names()).length > 2) await pause(10);
    assert.deepEqual(await names(), ['b', 'c']);
    assert.ok(existsSync(held.tree));
  });

  test('where the disk lacks room for an image, unused ones go, and those in use stay', async () => {
    const place = join(folder, 'short');
    const images = (): number => readdirSync(place).filter((name) => /^[0-9a-f]{64}$/.test(name)).length;
    let most = 1; // with so many images there is no room for another
    const short = await open({ folder: place, disk: { allows: async () => images() < most } });
    for (const name of ['a', 'b', 'c'])
      await registry.push('team/short', name, imageOf([shellLayer(), [{ name: 'name', content: name }]]));
    (await take(`${registry.host}/team/short:a`, '1', short))[Symbol.dispose]();
    using held = await take(`${registry.host}/team/short:b`, '1', short);
    assert.equal(images(), 1, 'the first has gone');
    await assert.rejects(take(`${registry.host}/team/short:c`, '1', short), failsWith('disk_full', /not enough room/));
    assert.equal((await run(held.tree, 'cat /name')).text, 'b');
    most = 2;
    (await take(`${registry.host}/team/short:c`, '1', short))[Symbol.dispose]();
    assert.equal(images(), 2);
  });

  test('only public registries are called, and those that are allowed, wherever they lead [promise: registry-addresses]', async (t) => {
    const closed = await open({ allow: [] });
    await assert.rejects(
      take(`${registry.host}/team/app:1`, '1', closed),
      failsWith('registry_not_allowed', /REGISTRY_ALLOW/),
    );
    if (fake.elsewhere === undefined) return t.skip('this machine has no other address');
    const { elsewhere } = fake;
    const redirect = (request: IncomingMessage, response: ServerResponse): void => {
      if (request.url === '/v2/') response.writeHead(200).end();
      else response.writeHead(307, { location: `https://${elsewhere}${request.url}` }).end();
    };
    const token = (_: IncomingMessage, response: ServerResponse): void =>
      void response
        .writeHead(401, { 'www-authenticate': `Bearer realm="https://${elsewhere}/token",service="s"` })
        .end();
    access = { host: fake.host, username: 'u', password: 'p' };
    for (const answer of [redirect, token]) {
      fake.calls.length = 0;
      fake.answer = answer;
      await assert.rejects(take(`${fake.host}/team/led:1`), failsWith('registry_not_allowed', /leads to, an address/));
      assert.ok(fake.calls.length > 0);
      assert.deepEqual(
        fake.calls.filter((call) => call.startsWith(elsewhere)),
        [],
      );
    }
  });

  test('a password is in no process list and on no disk, and a pull that is called off leaves nothing [promise: registry-passwords]', async () => {
    const called = Promise.withResolvers<void>();
    fake.answer = (request) => void (request.headers.authorization !== undefined && called.resolve());
    const first = fake.answer;
    fake.answer = (request, response) => {
      if (request.headers.authorization === undefined)
        response.writeHead(401, { 'www-authenticate': 'Basic realm="r"' }).end();
      else first(request, response);
    };
    const password = 'password-kittiwake';
    access = { host: fake.host, username: 'u', password };
    const stop = new AbortController();
    const order = { reference: `${fake.host}/team/slow:1`, accountId: '1' };
    const taking = images.take(order, { id: 'claim', writeLog: () => {}, signal: stop.signal });
    taking.catch(() => {});
    await called.promise; // skopeo has sent it, and waits for the answer
    const encoded = Buffer.from(`u:${password}`).toString('base64');
    for (const name of readdirSync('/proc').filter((pid) => /^\d+$/.test(pid))) {
      const line = await readFile(`/proc/${name}/cmdline`, 'latin1').catch(() => '');
      assert.ok(!line.includes(password) && !line.includes(encoded), line);
    }
    for (const word of [password, encoded]) {
      const { status, stdout } = await runProgram('grep', ['-rl', '--devices=skip', word, folder]);
      assert.equal(status, 1, stdout.toString());
    }
    stop.abort(new Error('called off'));
    await assert.rejects(taking, /called off/);
    assert.deepEqual(readdirSync(join(folder, 'sockets')), []);
  });
});
