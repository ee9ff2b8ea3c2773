import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { run, type Finished } from '../../src/shared/lib/processes.ts';
import { temporaryFolder } from '../support/folders.ts';
import { lacks } from '../support/machine.ts';
import { longestWait } from '../support/pauses.ts';
import { askAt, build, gitUser, makeProject, sshd } from './first-build.ts';
import { openScratchRoot, type ScratchRoot } from './scratch-root.ts';
import { done, project, said } from './support.ts';

interface Bill {
  packages: { SPDXID: string; name: string; versionInfo: string; externalRefs?: { referenceLocator: string }[] }[];
  relationships: { spdxElementId: string; relatedSpdxElement: string }[];
}

const { version } = JSON.parse(readFileSync(join(project, 'package.json'), 'utf8')) as { version: string };
const foreign = /^(HEADRACE|NODE_OPTIONS$|NODE_TEST_CONTEXT$)/;
const environment = Object.fromEntries(Object.entries(process.env).filter(([name]) => !foreign.test(name)));

describe('a release', { skip: lacks('dpkg-deb', 'git') }, () => {
  const folder = temporaryFolder();
  const clone = join(folder, 'clone');
  const [first, second] = [join(folder, 'first'), join(folder, 'second')];
  const file = (name: string): string => join(first, name);
  const release = (at: string, args: string[], env: NodeJS.ProcessEnv = {}): Promise<Finished> =>
    run(join(at, 'scripts/release'), args, { env: { ...environment, ...env } });

  before(async () => {
    // The working copy as one commit, in clones with other paths, and with other settings around them.
    mkdirSync(clone);
    await done('git', 'init', '--quiet', clone);
    await done('git', `--git-dir=${clone}/.git`, `--work-tree=${project}`, 'add', '--all');
    const person = ['-c', 'user.name=a', '-c', 'user.email=a@example.org'];
    await done('git', '-C', clone, ...person, 'commit', '--quiet', '--message', 'Release');
    await done('git', '-C', clone, 'checkout', '--quiet', '--force', '.');
    const another = join(folder, 'ein anderer Ordner');
    await done('git', 'clone', '--quiet', clone, another);
    const settings = { TZ: 'Asia/Tokyo', LC_ALL: 'C.UTF-8', TMPDIR: folder, npm_config_include: 'dev' };
    const make = (at: string, into: string, env?: NodeJS.ProcessEnv) =>
      release(at, ['--without-image', '--fast', into], env);
    for (const made of await Promise.all([make(clone, first), make(another, second, settings)]))
      assert.equal(made.status, 0, said(made));
  });
  after(() => rmSync(folder, { recursive: true, force: true }));

  test('has an archive and a package for each kind of machine, a bill, the changes, and their sums', async () => {
    const names = [
      `headrace-${version}-changes.md`,
      `headrace-${version}-linux-arm64.tar.gz`,
      `headrace-${version}-linux-x64.tar.gz`,
      `headrace-${version}.spdx.json`,
      `headrace_${version}_amd64.deb`,
      `headrace_${version}_arm64.deb`,
    ];
    assert.deepEqual(readdirSync(first).toSorted(), ['SHA256SUMS', ...names].toSorted());
    const sums = await done('sh', '-c', `cd '${first}' && sha256sum --check --strict SHA256SUMS`);
    assert.deepEqual(sums.trim().split('\n').toSorted(), names.map((name) => `${name}: OK`).toSorted());
    for (const architecture of ['amd64', 'arm64']) {
      const fields = ['--field', file(`headrace_${version}_${architecture}.deb`), 'Version', 'Architecture'];
      assert.equal(await done('dpkg-deb', ...fields), `Version: ${version}\nArchitecture: ${architecture}\n`);
    }
    assert.match(readFileSync(file(`headrace-${version}-changes.md`), 'utf8'), new RegExp(`^## \\[${version}\\]`));
    assert.doesNotMatch(readFileSync(file(`headrace-${version}-changes.md`), 'utf8').slice(3), /^## /m);
  });

  test('has the same bytes twice, from wherever it is made', async () => {
    for (const name of readdirSync(first)) await done('cmp', file(name), join(second, name));
  });

  test('its bill names every package that is not for development', () => {
    const bill = JSON.parse(readFileSync(file(`headrace-${version}.spdx.json`), 'utf8')) as Bill;
    const locked = JSON.parse(readFileSync(join(project, 'package-lock.json'), 'utf8')) as {
      packages: Record<string, { version: string; dev?: boolean }>;
    };
    const wanted = Object.entries(locked.packages).filter(([place, { dev }]) => place !== '' && dev !== true);
    const named = new Set(bill.packages.map(({ name, versionInfo }) => `${name} ${versionInfo}`));
    const missing = wanted.filter(([at, its]) => !named.has(`${at.replace(/^.*node_modules\//, '')} ${its.version}`));
    assert.ok(wanted.length > 100);
    assert.deepEqual(missing, []);
    const ids = bill.packages.map(({ SPDXID }) => SPDXID);
    assert.equal(new Set(ids).size, ids.length);
    for (const id of ids) assert.match(id, /^SPDXRef-[A-Za-z0-9.-]+$/);
    const related = bill.relationships.flatMap((one) => [one.spdxElementId, one.relatedSpdxElement]);
    assert.deepEqual(
      related.filter((id) => id !== 'SPDXRef-DOCUMENT' && !ids.includes(id)),
      [],
    );
  });

  test('its archive for another kind of machine says so', async () => {
    const other = process.arch === 'x64' ? 'linux-arm64' : 'linux-x64';
    const own = process.arch === 'x64' ? 'linux-x64' : 'linux-arm64';
    await done('tar', '-C', folder, '-xzf', file(`headrace-${version}-${other}.tar.gz`));
    const started = await run(join(folder, `headrace-${version}-${other}/bin/headrace`), ['serve']);
    const machine = (await done('uname', '-m')).trim();
    assert.deepEqual(
      [started.status, said(started)],
      [1, `This headrace is for ${other}, and this machine is ${machine}.\nDownload the one for ${own}.\n`],
    );
  });

  test('comes from a commit, and replaces a release alone', async () => {
    writeFileSync(join(clone, 'package.json.orig'), '');
    const changed = await release(clone, ['--without-image', first]);
    assert.equal(changed.status, 1);
    assert.match(said(changed), /has changes that are in no commit, such as package\.json\.orig\.\n.*-- --dirty\n$/);
    writeFileSync(join(second, 'notes.txt'), 'mine');
    const foreign = await release(clone, ['--without-image', '--dirty', second]);
    assert.equal(foreign.status, 1);
    assert.match(said(foreign), /has files that are not of a release: notes\.txt\. Name an empty folder/);
    assert.equal(readFileSync(join(second, 'notes.txt'), 'utf8'), 'mine');
    const tarball = join(folder, `headrace-${version}-unpacked`);
    mkdirSync(tarball);
    await done('cp', '-R', join(clone, 'scripts'), join(clone, 'package.json'), tarball);
    const loose = await release(tarball, ['--without-image', join(folder, 'third')]);
    assert.equal(loose.status, 1);
    assert.match(said(loose), /A release comes from a commit, and .* is not a clone/);
  });

  describe('unpacked on a machine that has nothing of it', { skip: lacks('root', 'mounts') }, () => {
    let machine: ScratchRoot;
    before(async () => {
      const archive = readFileSync(join(project, 'bin/headrace'), 'utf8');
      const programs = Array.from(archive.matchAll(/[\w-]+=([\w-]+)/g), ([, name = '']) => name);
      machine = await openScratchRoot([...programs, 'curl', 'openssh-server', 'libstdc++6', 'perl-base'], first);
    });
    after(() => machine?.close());
    const works = async (command: string): Promise<string> => {
      const ran = await machine.sh(command);
      assert.equal(ran.status, 0, `${command}\n${said(ran)}`);
      return ran.stdout.toString();
    };

    test('serves and builds', async () => {
      assert.notEqual((await machine.sh('command -v node || command -v npm')).status, 0);
      const kind = process.arch === 'x64' ? 'linux-x64' : 'linux-arm64';
      await works(`mkdir /opt && tar -C /opt -xzf ${first}/headrace-${version}-${kind}.tar.gz; ${gitUser}; ${sshd}
        useradd --create-home ada`);
      const become = 'setpriv --reuid ada --regid ada --init-groups';
      const home = 'HOME=/home/ada NODE_COMPILE_CACHE=';
      const program = `/opt/headrace-${version}-${kind}/bin/headrace`;
      const server = machine.start(`cd /home/ada; ${home} exec ${become} ${program} serve --data-dir /home/ada/ci`);
      let output = '';
      for (const stream of [server.stdout, server.stderr])
        stream?.on('data', (chunk: Buffer) => (output += chunk.toString()));
      for (const began = Date.now(); !output.includes('listening on'); await pause(100))
        assert.ok(server.exitCode === null && Date.now() - began < longestWait, output);
      const key = /API key +(\S+)/.exec(output)?.[1] ?? assert.fail(output);
      const ask = askAt(works, 'https://127.0.0.1:8443', `--cacert ~ada/ci/tls/cert.pem -u admin@localhost:${key}`);
      const built = await build(ask, await makeProject(works, ask), 'git log -1 --format=%s; ! touch /usr/here 2>&1');
      assert.equal(built.state, 'passed', built.log + output);
      assert.match(built.log, /^first\n/);
      const gone = once(server, 'exit');
      await works('kill $(sed -n 1p ~ada/ci/server.lock)');
      await gone;
    });
  });
});
