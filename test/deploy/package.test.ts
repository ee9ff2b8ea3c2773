import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { run, type Finished } from '../../src/shared/lib/processes.ts';
import { temporaryFolder } from '../support/folders.ts';
import { lacks } from '../support/machine.ts';
import { askAt, build, gitUser, makeProject, sshd } from './first-build.ts';
import { openScratchRoot, type ScratchRoot } from './scratch-root.ts';
import { done, inUnit, makePackage, project, said } from './support.ts';

describe('the Debian package', () => {
  const folder = temporaryFolder();
  let file = '';
  before(async () => {
    file = await makePackage(folder, '1.0.0');
  });
  after(() => rmSync(folder, { recursive: true, force: true }));

  test('holds the program with what it needs, and nothing else', async () => {
    const listed = (await done('dpkg-deb', '--contents', file)).trim().split('\n');
    const entries = listed.map((line) => /^(\S+) (\S+) .* \.(\/\S*)( -> .*)?$/.exec(line) ?? assert.fail(line));
    for (const [line, mode = '', owner] of entries) {
      assert.equal(owner, 'root/root', line);
      assert.match(mode, /^(drwxr-xr-x|-rwxr-xr-x|-rw-r--r--|-rw-------)$/, line);
    }
    const paths = entries.map(([, , , path = '']) => path);
    const odd = paths.filter((path) => !/^\/(usr(\/|$)|etc\/|$)/.test(path));
    assert.deepEqual(odd, []);
    const foreign =
      /\/\.git|\/test\/|\/bench\/|\/fuzz\/|\/data\/|\.pem$|master\.key|node_modules\/(typescript|playwright|oxfmt|@esbuild)/;
    assert.deepEqual(
      paths.filter((path) => foreign.test(path.replace('/usr/share/doc', ''))),
      [],
    );
    const secret = entries.filter(([, mode]) => mode === '-rw-------').map(([, , , path = '']) => path);
    assert.deepEqual(secret.toSorted(), ['/etc/headrace/runner.env', '/etc/headrace/server.env']);
    for (const needed of [
      'bin/headrace',
      'dist/program/current/main.js',
      'dist/program/current/pages/main.js',
      'src/main.ts',
      'docs/agents.md',
      'prepare-runner',
    ])
      assert.ok(paths.includes(`/usr/lib/headrace/${needed}`), needed);
  });

  test('asks for every program that a start asks for', async () => {
    const depends = await done('dpkg-deb', '--field', file, 'Depends');
    const start = readFileSync(join(project, 'bin/headrace'), 'utf8');
    const asked = [...start.matchAll(/(?:require_programs|wish_programs '[^']*') (.*)$/gm)].map(([, pairs]) => pairs);
    const packages = asked.flatMap((pairs = '') => pairs.split(' ').map((pair) => pair.split('=')[1] ?? ''));
    assert.ok(packages.length > 5);
    const machine = readFileSync(join(project, 'src/runner/sandbox/machine.ts'), 'utf8');
    for (const [, name = ''] of machine.matchAll(/package: '([\w-]+)'/g)) packages.push(name);
    assert.deepEqual(
      packages.filter((name) => !depends.split(/, |\n/).includes(name)),
      [],
    );
  });

  test('its units hold what systemd knows', async () => {
    const unpacked = join(folder, 'unpacked');
    mkdirSync(unpacked);
    await done('dpkg-deb', '--extract', file, unpacked);
    const units = join(unpacked, 'usr/lib/systemd/system');
    for (const unit of ['headrace.service', 'headrace-runner.service']) {
      // Beside this machine's own targets, with the programs where they were unpacked.
      const text = readFileSync(join(units, unit), 'utf8');
      const here = text.replaceAll('/usr/lib/headrace', join(unpacked, 'usr/lib/headrace'));
      writeFileSync(join(units, unit), here);
      const verify = (): Promise<Finished> => run('systemd-analyze', ['verify', '--man=no', join(units, unit)]);
      assert.equal(said(await verify()), '', unit); // its status is 0 for keys that it does not know
      writeFileSync(join(units, unit), here.replace('KillMode', 'KillMood'));
      assert.match(said(await verify()), /KillMood/, 'what is wrong is seen');
      writeFileSync(join(units, unit), here);
    }
  });

  test('its scripts are correct for the shell that runs them', async () => {
    for (const script of [
      'postinst',
      'prerm',
      'postrm',
      'headrace',
      'headrace-server',
      'prepare-runner',
      'after-start',
    ])
      await done('dash', '-n', join(project, 'deploy/debian', script));
  });

  describe('on a machine', { skip: lacks('root', 'mounts') }, () => {
    let machine: ScratchRoot;
    let newer = '';
    before(async () => {
      newer = await makePackage(folder, '1.0.1');
      const depends = (await done('dpkg-deb', '--field', file, 'Depends')).trim().replaceAll(/ \([^)]*\)/g, '');
      machine = await openScratchRoot([...depends.split(', '), 'curl', 'openssh-server'], folder);
    });
    after(() => machine.close());

    const works = async (command: string): Promise<string> => {
      const ran = await machine.sh(command);
      assert.equal(ran.status, 0, `${command}\n${said(ran)}`);
      return ran.stdout.toString();
    };
    const dpkg = 'DEBIAN_FRONTEND=noninteractive dpkg --force-unsafe-io';

    /** Starts a unit by hand: its lines, as its user, with its environment. */
    const start = (unit: string): { said: () => string; stop(): Promise<void> } => {
      const [user = ''] = inUnit(unit, 'User');
      const [settings = ''] = inUnit(unit, 'EnvironmentFile').map((path) => path.replace('-', ''));
      const environment = inUnit(unit, 'Environment').map((pair) => `export ${pair};`);
      const before = inUnit(unit, 'ExecStartPre').map((line) => `${line.replace('+', '')} &&`);
      const [main = ''] = inUnit(unit, 'ExecStart');
      const child = machine.start(
        `set -a; . ${settings}; ${environment.join(' ')} ${before.join(' ')} echo $$ > /run/${unit}.pid && ` +
          `exec setpriv --reuid ${user} --regid ${user} --init-groups --inh-caps -all --no-new-privs -- ${main}`,
      );
      let output = '';
      for (const stream of [child.stdout, child.stderr])
        stream?.on('data', (chunk: Buffer) => (output += chunk.toString()));
      return {
        said: () => output,
        stop: async () => {
          const gone = once(child, 'exit');
          await works(`kill $(cat /run/${unit}.pid)`);
          await gone;
        },
      };
    };
    const until = async (holds: () => Promise<boolean> | boolean, otherwise: () => string): Promise<void> => {
      for (const from = Date.now(); !(await holds()); await pause(100)) {
        if (Date.now() - from > 60_000) assert.fail(otherwise());
      }
    };

    test("a folder of somebody else's is left alone", async () => {
      await works('install -d -o daemon /var/lib/headrace && touch /var/lib/headrace/theirs');
      const refused = await machine.sh(`${dpkg} --install ${file}`);
      assert.notEqual(refused.status, 0);
      assert.match(said(refused), /\/var\/lib\/headrace is there already .*\(but of daemon\)/);
      assert.match(said(refused), /chown -R headrace:headrace \/var\/lib\/headrace/);
      assert.equal(await works('stat -c %U /var/lib/headrace /var/lib/headrace/theirs'), 'daemon\nroot\n');
      await works(`rm -r /var/lib/headrace && ${dpkg} --configure headrace`);
    });

    test('the runner cannot read what is the server’s, nor anybody what is secret', async () => {
      const modes = await works('stat -c "%n %a %U:%G" /etc/headrace/*.env /var/lib/headrace* /var/backups/headrace');
      assert.equal(
        modes,
        '/etc/headrace/runner.env 600 root:root\n/etc/headrace/server.env 600 root:root\n' +
          '/var/lib/headrace 700 headrace:headrace\n/var/lib/headrace-runner 711 headrace-runner:headrace-runner\n' +
          '/var/backups/headrace 700 headrace:headrace\n',
      );
    });

    test('server and runner start, find each other, and build', async () => {
      await works(`printf '# changed\\nHEADRACE_LOG_LEVEL="info"\\n' >> /etc/headrace/server.env`);
      const server = start('headrace.service');
      await until(() => server.said().includes('listening on'), server.said);
      const [afterwards = ''] = inUnit('headrace.service', 'ExecStartPost');
      await works(`MAINPID=$(cat /run/headrace.service.pid) timeout 120 ${afterwards.replace('+', '')}`);
      const credentials = await works('cat /var/lib/headrace/first-user');
      const password = /password +(\S+)/.exec(credentials)?.[1] ?? assert.fail(credentials);
      assert.ok(!server.said().includes(password) && !server.said().includes('hrk_'), 'no password in the journal');

      const runner = start('headrace-runner.service');
      const ask = 'curl -sS --cacert /etc/headrace/runner/server.pem https://127.0.0.1:8443/healthz';
      await until(
        async () => said(await machine.sh(ask)).includes('"state":"connected"'),
        () => runner.said() + server.said(),
      );
      assert.equal(
        await works('stat -c "%n %a %U:%G" /etc/headrace/runner/* /var/lib/headrace/first-user'),
        '/etc/headrace/runner/server.pem 640 root:headrace-runner\n/etc/headrace/runner/token 640 root:headrace-runner\n' +
          '/var/lib/headrace/first-user 600 headrace:headrace\n',
      );
      const users =
        'for p in /proc/[0-9]*; do tr "\\0" " " < $p/cmdline | grep -q "main.js [sr]" && stat -c %U $p; done';
      assert.equal(await works(`{ ${users}; } | sort`), 'headrace\nheadrace-runner\n');
      const peek = 'setpriv --reuid headrace-runner --regid headrace-runner --init-groups -- cat';
      for (const secret of ['/var/lib/headrace/master.key', '/etc/headrace/server.env', '/var/lib/headrace/first-user'])
        assert.match(said(await machine.sh(`${peek} ${secret}`)), /Permission denied/);

      await works(`${gitUser}; ${sshd}`);
      const key = /API key +(\S+)/.exec(credentials)?.[1] ?? assert.fail(credentials);
      const curl = `--cacert /etc/headrace/runner/server.pem -u admin@localhost:${key}`;
      const api = askAt(works, 'https://127.0.0.1:8443', curl);
      const command = 'git log -1 --format=%s; ! touch /usr/here 2>&1; ! ls /var/lib/headrace 2>&1';
      const built = await build(api, await makeProject(works, api), command);
      assert.equal(built.state, 'passed', built.log + runner.said());
      assert.match(built.log, /^first\n/);

      const early = await machine.sh(`${dpkg} --install ${newer}`);
      assert.notEqual(early.status, 0, 'nobody here can stop them, and their files are not replaced while they run');
      assert.match(said(early), /processes of its users still run: \d+/);
      await runner.stop();
      await server.stop();
    });

    test('an upgrade keeps settings, data and the token', async () => {
      const before = await works('cat /etc/headrace/runner/token /var/lib/headrace/master.key | sha256sum');
      await works(`${dpkg} --install ${newer}`);
      assert.equal(await works('dpkg-query -W -f "\\${Version} \\${Status}" headrace'), '1.0.1 install ok installed');
      assert.match(await works('cat /etc/headrace/server.env'), /# changed/);
      assert.equal(await works('cat /etc/headrace/runner/token /var/lib/headrace/master.key | sha256sum'), before);
      const runners = JSON.parse(await works('headrace-server admin runner list')) as { revoked: boolean }[];
      assert.deepEqual(
        runners.map(({ revoked }) => revoked),
        [false],
      );
      await works('headrace-server backup /var/backups/headrace/kept');
      const misread =
        await machine.sh(`cp -a /etc/headrace/server.env /tmp/kept.env; echo 'PASSWORD s3cret' >> /etc/headrace/server.env;
        headrace-server admin runner list; status=$?; mv /tmp/kept.env /etc/headrace/server.env; exit $status`);
      assert.equal(misread.status, 1);
      assert.match(said(misread), /line \d+ of \/etc\/headrace\/server.env is not NAME=value/);
      assert.ok(!said(misread).includes('s3cret'));
    });

    test('the version before takes the backup back, as the page has it', async () => {
      const page = readFileSync(join(project, 'docs/install-debian.md'), 'utf8');
      const [, steps = ''] = /To go back,.*?```sh\n(.*?)```/s.exec(page) ?? [];
      const commands = steps
        .replaceAll('sudo ', '')
        .replaceAll(/^systemctl .*$/gm, ':') // nothing is running here
        .replace(/apt-get install .*/, `${dpkg} --install --force-downgrade ${file}`)
        .replace('before-0.3.0', 'kept');
      await works(`set -e\n${commands}`);
      assert.equal(await works('dpkg-query -W headrace'), 'headrace\t1.0.0\n');
      const key = 'sha256sum <';
      const [restored, before] = ['/var/lib/headrace', '/var/lib/headrace.newer'];
      assert.equal(await works(`${key}${restored}/master.key`), await works(`${key}${before}/master.key`));
      const runners = JSON.parse(await works('headrace-server admin runner list')) as { revoked: boolean }[];
      assert.equal(runners.length, 1);
      await works('rm -r /var/lib/headrace.newer');
    });

    test('removing it keeps settings and data; purging it leaves the backups', async () => {
      await works(`${dpkg} --remove headrace`);
      assert.equal((await machine.sh('test -e /usr/lib/headrace || test -e /usr/bin/headrace')).status, 1);
      await works('test -e /var/lib/headrace/master.key && test -e /etc/headrace/server.env');
      await works(`${dpkg} --purge headrace`);
      assert.equal((await machine.sh('getent passwd headrace headrace-runner || getent group headrace')).status, 2);
      const left = (await machine.changed()).filter((path) => /headrace/.test(path) && !path.startsWith(tmpdir()));
      assert.deepEqual(left.toSorted(), ['/var/backups/headrace', '/var/backups/headrace/kept']);
      assert.equal(
        await works('stat -c "%a %U" /var/backups/headrace /var/backups/headrace/kept'),
        '700 root\n600 root\n',
      );
    });
  });
});
