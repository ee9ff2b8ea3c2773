import assert from 'node:assert/strict';
import { before, test, type TestContext } from 'node:test';
import { growingPauses } from '../support/pauses.ts';
import { onOneDatabase } from '../support/databases.ts';
import { Developer } from '../support/developer.ts';
import { startInstallation, type Build, type Installation, type Project } from '../support/installation.ts';

/** Restarts from a later step, with the real server, runner and sandbox. */
onOneDatabase((database) => {
  let installation: Installation;
  let project: Project;
  let developer: Developer;
  before(async () => {
    installation = await startInstallation(database);
    project = await installation.project();
    developer = await Developer.at(installation, installation.admin.email);
    developer.clone(installation.host.url('app.git'));
  });

  const stepsOf = (...commands: string[]): Record<string, string> =>
    Object.fromEntries(
      commands.flatMap((command, at) => [
        [`steps[${at}][name]`, `s${at}`],
        [`steps[${at}][command]`, command],
      ]),
    );
  const commandsBySuite = new Map<string, string[]>();
  const commandsOf = (build: Build): string[] => commandsBySuite.get(build.suite_id_str) ?? [];
  /** A failed build of a new suite with these steps. */
  const failed = async (t: TestContext, commands: string[], more: Record<string, string> = {}): Promise<Build> => {
    const suite = await project.suite(t, `suite ${Math.random()}`, '', { ...stepsOf(...commands), ...more });
    commandsBySuite.set(suite, commands);
    const sha = await project.repository.commit({ files: { 'tracked.txt': 'tracked\n' } });
    await project.build(sha);
    const commit = (await project.commits()).find(({ ref }) => ref === sha);
    const build = (await project.builds(commit)).find(({ suite_id_str }) => suite_id_str === suite);
    assert.equal(build?.build_state, 'failed', build && (await project.log(build)));
    return build;
  };
  const ended = async ({ id_str: id }: { id_str: string }) => {
    for (const wait = growingPauses(); ; await wait()) {
      const build = await project.api().get<Build & { steps: { state: string }[] }>(`${project.path}/builds/${id}`);
      if (!['enqueued', 'running'].includes(build.build_state))
        return { ...build, log: await project.log(build), states: build.steps.map(({ state }) => state).join(' ') };
    }
  };
  const again = async ({ id_str: id }: { id_str: string }, step: string) =>
    ended(await project.api().post(`${project.path}/builds/${id}/restart`, { from_step: step }));

  test('a build starts at a later step with what the steps before it left', async (t) => {
    const token = 'from-a-vault-7';
    const build = await failed(t, [
      `echo "made by $HEADRACE_ATTEMPT" >made; echo home >~/h; echo tmp >/tmp/t; rm tracked.txt; chmod 700 .
       echo "ADDED=added by $HEADRACE_ATTEMPT" >$HEADRACE_ENV; echo HIDDEN=${token} >$HEADRACE_SECRET_ENV`,
      'echo second >>made; true',
      `cat made ~/h /tmp/t; ls made tracked.txt 2>/dev/null || :; stat -c %a .; echo "$ADDED, hidden $HIDDEN $SHARED"; echo dirty >>made; rm ~/h; exit 3`,
      'echo last; cat made; [ -e fixed ]',
    ]);
    const seen = 'made by 1\nsecond\nhome\ntmp\nmade\n700\nadded by 1, hidden [masked] \n';
    assert.equal(await project.log(build), seen);
    const first = await again(build, 's2');
    assert.equal(
      first.log,
      `This starts at the step s2, with the files and variables of build ${build.id_str}.\n${seen}`,
    );
    assert.deepEqual([first.build_state, first.states], ['failed', 'skipped skipped failed skipped']);
    // What a restarted build left, and the builds that it stands on in turn.
    const second = await again(first, 's2');
    assert.equal(
      second.log,
      `This starts at the step s2, with the files and variables of build ${first.id_str}.\n${seen}`,
    );
    const earlier = await again(second, 's1');
    assert.match(earlier.log, /^This starts at the step s1, .*\nmade by 1\nsecond\nhome\n/);
    assert.equal(earlier.states, 'skipped passed failed skipped');
    const shell = await developer.run(['shell', earlier.id_str], 'cat made /tmp/t; ls ~; echo "$ADDED $HIDDEN"');
    assert.equal(shell.out, `made by 1\nsecond\ndirty\ntmp\nadded by 1 ${token}\n`, shell.err);
    // A step after the one that failed has nothing to start with.
    const beyond = await again(earlier, 's3');
    assert.match(
      beyond.log,
      /^This starts at the first step: the files that the steps before s3 left in build \d+ are/,
    );
    assert.equal(beyond.states, 'passed passed failed skipped');
    const whole = await again(build, 's0');
    assert.match(whole.log, /^made by 6\n/);
    const ran = await developer.run(['restart', beyond.id_str, '--from-step', 's2', '-f']);
    assert.match(ran.out, /This starts at the step s2, with/, ran.err);
    const unknown = await developer.run(['restart', beyond.id_str, '--from-step', 's9']);
    assert.match(unknown.err, /has no step s9/);
  });

  const changed = (step: string): string =>
    `This starts at the first step: the steps before ${step}, the image or the variables are not what they were.\n`;

  test('a later step may change, but not those before it, nor a variable', async (t) => {
    const build = await failed(t, ['echo ran >>made', 'cat made; exit 1']);
    const { suite_id_str: suite } = build;
    const change = (...commands: string[]) =>
      project.api().put(`${project.path}/suites/${suite}`, { ...stepsOf(...commands) });
    await change('echo ran >>made', 'echo mended; cat made');
    const mended = await again(build, 's1');
    assert.deepEqual([mended.build_state, mended.log.split('\n').slice(1)], ['passed', ['mended', 'ran', '']]);
    const secret = await project.variable(suite, 'SECRET', 'quite-secret', { secret: 'true' });
    const other = await again(build, 's1');
    assert.equal(other.log, `${changed('s1')}mended\nran\n`);
    await project.api().delete(`${project.path}/suites/${suite}/environment_variables/${secret.id_str}`);
    await change('echo another >>made', 'cat made');
    assert.equal((await again(build, 's1')).log, `${changed('s1')}another\n`);
  });

  test('a cache that an early step wrote is saved, and a build from a later step has it and saves none', async (t) => {
    const cached = { 'cache[]': 'deps', cache_save: 'always' };
    const build = await failed(t, ['mkdir deps; echo one >deps/f', 'cat deps/f; echo >later', 'exit 1'], cached);
    assert.match(await project.log(build), /Saved the cache/);
    const { log } = await again(build, 's1');
    assert.match(log, /^This starts at the step s1, /);
    assert.match(log, /^one$/m);
    assert.doesNotMatch(log, /Saved the cache/);
    const next = await again(build, 's0');
    assert.match(next.log, /File exists|Saved the cache/, 'the next build begins with the cache');
  });

  test('a step that leaves processes running keeps no files', async (t) => {
    const build = await failed(t, ['sleep 1000 & echo $! >pid', 'kill -0 $(cat pid); echo alive', 'false']);
    const { log } = await again(build, 's2');
    assert.match(log, /^This starts at the first step: the files that the steps before s2 left in build \d+ are/);
    assert.match(log, /alive/);
  });

  test('nothing that a hostile step leaves stops or misleads a restart', async (t) => {
    const seen = `ls -A . ~ /tmp | LC_ALL=C sort; readlink root stage-0; stat -c '%A %h %s' a b sparse pipe closed
      cat a; ls /tmp/..; [ ! -u a ] || echo setuid; cat shadow 2>&1 || :; head -c1 sparse | od -c | head -1; ls -l b`;
    const build = await failed(t, [
      `ln -s /etc/shadow shadow; ln -s / root; ln -s ../../.. stage-0; mkfifo pipe; truncate -s 3T sparse
       echo x >a; ln a b; chmod 6755 a; mkdir closed; touch closed/in; rm tracked.txt
       touch "$(printf 'no\\377text')" -- -rf .wh.tracked.txt .wh..wh..opq; mknod c c 0 0 2>/dev/null || :
       for d in /build ~ /tmp; do mkdir -p $d/deep/stage-0/changes; ln -s /etc $d/changes; done
       python3 -c 'import os
for n in ("trusted.overlay.opaque", "user.overlay.opaque", "user.overlay.redirect", "user.overlay.metacopy"):
  try: os.setxattr("closed", n, b"y")
  except OSError: pass' 2>/dev/null || :
       chmod 0 closed`,
      `{ ${seen}; } >~/seen 2>&1; rm -rf deep a stage-0 root; chmod 700 closed; rm -r closed; echo evil >b; exit 1`,
      'true',
    ]);
    const { suite_id_str: suite } = build;
    await project.api().put(`${project.path}/suites/${suite}`, stepsOf('true'));
    const shell = await developer.run(['shell', build.id_str], 'cat ~/seen; cat b');
    assert.match(shell.out, /evil\n$/, shell.err);
    const next = await again(build, 's1');
    assert.match(next.log, /s1, the image/, 'the suite has other steps');
    const reset = stepsOf(...commandsOf(build).with(1, `{ ${seen}; } >~/seen 2>&1; cat ~/seen`));
    await project.api().put(`${project.path}/suites/${suite}`, reset);
    const { log, build_state: state } = await again(build, 's1');
    assert.equal(state, 'passed', log);
    assert.equal(log.slice(log.indexOf('\n') + 1), shell.out.replace(/evil\n$/, ''));
  });
});
