import assert from 'node:assert/strict';
import { before, test, type TestContext } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import type { Scope } from '../../src/server/http/route.ts';
import { onOneDatabase } from '../support/databases.ts';
import { Developer } from '../support/developer.ts';
import { startInstallation, type Build, type Installation, type Project } from '../support/installation.ts';
import { commandsWith } from '../support/process-list.ts';

/** Shells in the files of failed builds, with the real server, runner, sandbox and terminals. */
onOneDatabase((database) => {
  let installation: Installation;
  let project: Project;
  let developer: Developer;
  before(async () => {
    installation = await startInstallation(database);
    project = await installation.project();
    developer = await developerOf(installation.admin.email);
    developer.clone(installation.host.url('app.git'));
  });

  const developerOf = (email: string, allowed?: Scope[]): Promise<Developer> =>
    Developer.at(installation, email, allowed);
  /** A build of a new suite with this command. */
  const built = async (
    t: TestContext,
    command: string,
    variables: Record<string, string> = {},
    more: Record<string, string> = {},
  ): Promise<Build> => {
    const suite = await project.suite(t, `suite ${Math.random()}`, command, more);
    for (const [name, content] of Object.entries(variables))
      await project.variable(suite, name, content, { secret: 'true' });
    const sha = await project.repository.commit({ files: { 'tracked.txt': 'tracked\n' } });
    await project.build(sha);
    const commit = (await project.commits()).find(({ ref }) => ref === sha);
    const build = (await project.builds(commit)).find(({ suite_id_str }) => suite_id_str === suite);
    assert.ok(build);
    return build;
  };

  test('the files, variables and folders of a failed build are as they were when it ended', async (t) => {
    const build = await built(
      t,
      '',
      { TOKEN: 'value of the variable' },
      {
        'steps[0][name]': 'prepare',
        'steps[0][command]': 'echo ADDED=plain >$HEADRACE_ENV; echo HIDDEN=from-a-vault >$HEADRACE_SECRET_ENV',
        'steps[1][name]': 'make',
        'steps[1][command]':
          'echo made > made.txt; rm tracked.txt; echo home > ~/h; echo tmp > /tmp/t; export LOCAL=1; exit 5',
      },
    );
    assert.equal(build.build_state, 'failed', await project.log(build));
    const script =
      'pwd; ls *.txt; cat made.txt ~/h /tmp/t; echo "$TOKEN $HEADRACE_BUILD_ID ${LOCAL-none} $ADDED $HIDDEN"; id -un; exit 9';
    const ran = await developer.run(['shell', build.id_str], script);
    assert.deepEqual(ran, {
      status: 9,
      out: `/build\nmade.txt\nmade\nhome\ntmp\nvalue of the variable ${build.id_str} none plain from-a-vault\nbuild\n`,
      err: `Running standard input in the files of build ${build.id_str}.\n`,
    });
    // What one shell changes, the next one does not see.
    assert.equal((await developer.run(['shell', build.id_str], 'cat made.txt; echo x > made.txt')).out, 'made\n');
    assert.equal((await developer.run(['shell', build.id_str], 'cat made.txt')).out, 'made\n');
  });

  test('so are those that the failed build has saved as the cache of its suite', async (t) => {
    const saving = { 'cache[]': 'deps\n~/.tool', cache_save: 'always' };
    const command = 'mkdir deps ~/.tool; echo made > deps/f; echo home > ~/.tool/f; exit 1';
    const build = await built(t, command, {}, saving);
    assert.match(await project.log(build), /Saved the cache/);
    const { out } = await developer.run(['shell', build.id_str], 'cat deps/f ~/.tool/f');
    assert.equal(out, 'made\nhome\n');
  });

  test('a person sits in a terminal there: its size, its colours, Ctrl-C, and its exit status', async (t) => {
    const build = await built(t, 'echo made > made.txt; false');
    const terminal = developer.sit(['shell', build.id_str], { columns: 100, rows: 30 });
    await terminal.until(/[$#] $/m);
    terminal.type('stty size; tty; echo $TERM\r');
    await terminal.until(/30 100\s+\/dev\/pts\/0\s+xterm-256color/);
    // It says so itself: before it has the terminal, the shell may get the Ctrl-C.
    terminal.type('sh -c "echo now; exec sleep 1000"\r');
    await terminal.until(/^now/m);
    terminal.type('\u0003');
    terminal.type('echo status $?\r');
    await terminal.until(/status 130/);
    terminal.type('cat made.txt; exit 6\r');
    assert.equal(await terminal.end(), 6);
    assert.match(terminal.text, /^made$/m);
  });

  test('a shell can do no more than a build, and is alone in its sandbox [promise: shell-isolation]', async (t) => {
    // What the suite says of itself is what the shell says of itself.
    const probe = [
      'id; cat /proc/self/uid_map | wc -l; grep -E "^(CapEff|CapBnd|Seccomp|NoNewPrivs):" /proc/self/status',
      'ls /; ls -A /dev | tr "\\n" " "; ls /sys 2>&1; cat /etc/shadow 2>&1; unshare -U true 2>&1; mount -t tmpfs x /tmp 2>&1',
      'cat /proc/net/dev | tail -n +3 | cut -d: -f1; ulimit -u; hostname',
      `ls ${installation.folder} 2>&1; ps -e -o comm= | sort | grep -v -E "^(ps|sort|grep|sh)$"`,
    ].join('; ');
    const build = await built(t, `set +e; { ${probe}; } > ~/seen 2>&1; false`);
    const { out } = await developer.run(
      ['shell', build.id_str],
      `{ ${probe}; } > /tmp/now 2>&1; diff ~/seen /tmp/now && echo same`,
    );
    assert.equal(out, 'same\n');
  });

  test('two people sit in the same build at once, each in files of their own', async (t) => {
    const build = await built(t, 'echo made > made.txt; false');
    const sit = () => developer.sit(['shell', build.id_str]);
    const [one, other] = [sit(), sit()];
    await one.until(/[$#] $/m);
    await other.until(/[$#] $/m);
    one.type('echo changed > made.txt; echo done\r');
    await one.until(/^done/m);
    other.type('cat made.txt; ps -e | grep -c bash; exit 0\r');
    assert.equal(await other.end(), 0);
    assert.match(other.text, /^made$/m);
    assert.match(other.text, /^1$/m);
    one.type('cat made.txt; exit 0\r');
    assert.equal(await one.end(), 0);
    assert.match(one.text, /^changed$/m);
  });

  test('a token without the scope opens none, and its owner is told what to do; nor does a build that passed', async (t) => {
    const build = await built(t, 'false');
    const allowed: Scope[] = ['commits', 'projects', 'suites', 'build_requests', 'build_requests_create'];
    const limited = await developerOf(installation.admin.email, allowed);
    limited.clone(installation.host.url('app.git'));
    const refused = await limited.run(['shell', build.id_str], 'echo no');
    assert.deepEqual(
      [refused.status, refused.out, refused.err],
      [
        3,
        '',
        'headrace: Your token does not allow shells (the scope shells). Sign in again, and allow them: headrace login\n',
      ],
    );
    const passed = await built(t, 'true');
    const { status, err } = await developer.run(['shell', passed.id_str], 'echo no');
    assert.deepEqual([status, err], [2, `headrace: Build ${passed.id_str} did not fail: it is passed.\n`]);
  });

  test('a runner that is killed ends its shells and leaves nothing of them; the next one has the files', async (t) => {
    const build = await built(t, 'echo made > made.txt; false');
    const terminal = developer.sit(['shell', build.id_str]);
    await terminal.until(/[$#] $/m);
    terminal.type('sleep 1234567\r');
    await terminal.until(/sleep 1234567/);
    while (commandsWith('sleep\u00001234567\u0000').length === 0) await pause(20);
    await installation.killRunner();
    while (commandsWith('sleep\u00001234567\u0000').length > 0) await pause(20);
    terminal.type('\r~.');
    assert.equal(await terminal.end(), 3);
    // The server starts another runner, which needs a moment.
    for (;;) {
      const { status, out, err } = await developer.run(['shell', build.id_str], 'cat made.txt');
      if (status === 3 && /is not connected/.test(err)) continue;
      assert.deepEqual([status, out], [0, 'made\n'], err);
      return;
    }
  });
});
