import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { before, test, type TestContext } from 'node:test';
import { onOneDatabase } from '../support/databases.ts';
import { startInstallation, type Build, type Installation, type Project } from '../support/installation.ts';

/** Builds that mean no good, or know no measure, in the whole service: what becomes of them, and of their logs. */
onOneDatabase((database) => {
  let installation: Installation;
  let project: Project;
  before(async () => {
    installation = await startInstallation(database, { HEADRACE_BUILD_MEMORY: '256' });
    project = await installation.project();
  });

  const built = async (t: TestContext, name: string, command: string): Promise<Build> => {
    await project.suite(t, name, `set +e; ${command}`);
    await project.build(await project.repository.commit({ message: name }));
    const [commit] = await project.commits();
    const [build, ...others] = await project.builds(commit);
    assert.deepEqual(others, []);
    return build ?? assert.fail('it was not built');
  };

  test('terminal sequences, and bytes that are no text, are in the log byte for byte [promise: build-log]', async (t) => {
    const said = [0x1b, 0x5b, 0x32, 0x4a, 0x1b, 0x5d, 0x30, 0x3b, 0x78, 0x07, 0x08, 0x0d, 0xff, 0xfe, 0xc3, 0x28, 0x00];
    const octal = said.map((byte) => `\\${byte.toString(8).padStart(3, '0')}`).join('');
    const build = await built(t, 'terminal', `printf '${octal}\\n'`);
    assert.deepEqual(await project.logBytes(build), Buffer.from([...said, 0x0a]));
  });

  test('100 MB on one line arrive whole', async (t) => {
    const size = 100 * 1024 * 1024;
    const build = await built(t, 'long line', `head -c ${size} /dev/zero | tr '\\0' x`);
    assert.equal(build.build_state, 'passed');
    const bytes = await project.logBytes(build);
    const hash = (content: Buffer) => createHash('sha256').update(content).digest('hex');
    assert.equal(bytes.length, size);
    assert.equal(hash(bytes), hash(Buffer.alloc(size, 'x')));
  });

  test('a build that closes its output and goes on is waited for', async (t) => {
    const build = await built(t, 'quiet', 'echo before; exec >&- 2>&-; sleep 0.5; exit 7');
    assert.deepEqual([build.build_state, build.exit_status, await project.log(build)], ['failed', 7, 'before\n']);
  });

  test('a process that daemonizes, or ignores SIGTERM, does not outlive its build', async (t) => {
    const build = await built(t, 'daemon', "(trap '' TERM HUP; setsid sleep 1000) & echo gone; exit 0");
    assert.deepEqual([build.build_state, await project.log(build)], ['passed', 'gone\n']);
  });

  test('the memory that it may have is all that it gets', async (t) => {
    const build = await built(t, 'hog', `perl -e '$x = "x" x (900 * 1024 * 1024); print length $x'`);
    assert.deepEqual([build.build_state, build.failure_reason], ['failed', 'out_of_memory']);
  });

  test('nothing of the server is within its reach [promise: build-files]', async (t) => {
    const { folder } = installation;
    const tries = [
      `cat ${folder}/master.key ${folder}/headrace.db ${folder}/tls/key.pem`,
      `ls ${folder}`,
      `kill -9 ${process.pid}`,
      `cat /proc/${process.pid}/environ`,
      'ls /run/headrace/server.sock',
      `perl -MIO::Socket::INET -e 'exit !IO::Socket::INET->new("${new URL(installation.address()).host}")'`,
      'grep -r "^-----BEGIN .*PRIVATE KEY-----" /build/.git /tmp /etc /home',
      'git -C /build push origin HEAD:refs/heads/mine',
    ];
    const command = tries.map((attempt, number) => `(${attempt}) >/dev/null 2>&1 && echo ${number} worked`).join('\n');
    const build = await built(
      t,
      'burglar',
      `${command}\necho tried; env | grep -v ^HEADRACE_SECRET_ENV= | grep -ci -e token -e key -e secret`,
    );
    assert.equal(await project.log(build), 'tried\n0\n');
  });
});
