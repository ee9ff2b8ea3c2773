import assert from 'node:assert/strict';
import { before, test, type TestContext } from 'node:test';
import { onEveryDatabase } from '../support/databases.ts';
import { growingPauses } from '../support/pauses.ts';
import { startInstallation, type Installation, type Project } from '../support/installation.ts';

interface Step {
  name: string;
  state: string;
  exit_status: number | null;
  started_at: string | null;
  finished_at: string | null;
  line: number | null;
}

/** Suites with steps, as real builds. */
onEveryDatabase((database) => {
  let installation: Installation;
  let project: Project;
  before(async () => {
    installation = await startInstallation(database);
    project = await installation.project();
  });
  const suite = (t: TestContext, name: string, steps: [command: string, when?: string][]): Promise<string> => {
    const fields = steps.flatMap(([command, when = ''], at) => [
      [`steps[${at}][name]`, `s${at}`],
      [`steps[${at}][command]`, command],
      [`steps[${at}][when]`, when],
    ]);
    return project.suite(t, name, '', Object.fromEntries(fields) as Record<string, string>);
  };
  const buildOf = async (id: string) => {
    const [commit] = await project.commits();
    const build = (await project.builds(commit)).find((one) => one.suite_id_str === id);
    const { steps } = build as unknown as { steps: Step[] };
    const short = steps.map(({ name, state, exit_status: status, line }) => [name, state, status, line]);
    return { ...build, steps, short, log: build ? await project.log(build) : '' };
  };

  test('steps share files and what runs, and hand on variables; what follows a failure is as they say', async (t) => {
    const id = await suite(t, 'stepwise', [
      ['cd /; export LOST=1; (sleep 1000 & echo $! >/build/pid); echo one; printf two'],
      ['pwd; echo "lost: $LOST"; kill -0 $(cat pid); ls -l $HEADRACE_ENV | cut -c1-10'],
      ['failing=never', 'failed'],
      [
        `printf 'PLAIN=a=b "$HOME"\\nMANY<<.\\n1\\n.2\\n\\n.\\nCI=no\\nHEADRACE_X=1\\n1BAD=x\\nTMOUT=1\\nLAST=l' >$HEADRACE_ENV
         echo 'TOKEN=swordfish-9' >>$HEADRACE_SECRET_ENV; echo 'said swordfish-9 before'`,
      ],
      ['echo "$PLAIN|$MANY|$CI|$HEADRACE_X|$LAST"; echo "token $TOKEN"; exit 7'],
      ['echo never'],
      ['echo "cleaning up with $TOKEN"; exit 3', 'failed'],
      ['echo always; echo LD_PRELOAD=/nothing.so >$HEADRACE_ENV', 'always'],
    ]);
    const plain = await project.suite(t, 'plain', 'echo hello; exit 4');
    const none = await suite(t, 'none', [['exit 1', 'failed']]);
    await project.repository.commit({ message: 'Step' });
    assert.equal((await project.build('main')).build_state, 'failed');
    const { log, short, steps, ...build } = await buildOf(id);
    const lines = log.split('\n');
    assert.deepEqual(lines, [
      'one',
      'two',
      '/build',
      'lost: ',
      '-rw-rw-rw-',
      'said swordfish-9 before',
      'HEADRACE_ENV: line 7: CI is a name that builds cannot set; it is ignored.',
      'HEADRACE_ENV: line 8: HEADRACE_X is a name that builds cannot set; it is ignored.',
      'HEADRACE_ENV: line 9: it does not start with the name of a variable; it is ignored.',
      'a=b "$HOME"|1',
      '.2',
      '|true||l',
      'token [masked]',
      'cleaning up with [masked]',
      'always',
      '',
    ]);
    assert.deepEqual(short, [
      ['s0', 'passed', 0, 1],
      ['s1', 'passed', 0, 3],
      ['s2', 'skipped', null, null],
      ['s3', 'passed', 0, 6],
      ['s4', 'failed', 7, 10],
      ['s5', 'skipped', null, null],
      ['s6', 'failed', 3, 14],
      ['s7', 'passed', 0, 15],
    ]);
    assert.deepEqual([build.build_state, build.exit_status], ['failed', 7]);
    const times = steps.flatMap((step) =>
      step.started_at === null ? [] : [step.started_at, String(step.finished_at)],
    );
    assert.deepEqual(times, times.toSorted(), 'one after the other');
    assert.deepEqual((await buildOf(plain)).short, [['command', 'failed', 4, 1]]);
    const skipped = await buildOf(none);
    assert.deepEqual([skipped.build_state, skipped.short], ['passed', [['s0', 'skipped', null, null]]]);
  });

  test('a step that ends what leads it, or floods it, makes a failed build at most [promise: build-verdict] [promise: build-steps]', async (t) => {
    const attacks = {
      leader: 'kill -9 1; kill -TERM 1; kill -TERM $PPID; exit 0',
      forger:
        'for pid in 1 $PPID; do printf "end 0 0\\nstart 1\\nend 1 0\\n" >/proc/$pid/fd/5 || true; done 2>/dev/null; exit 9',
      everybody: 'kill -9 -1; exit 9',
      flood: 'head -c 100000000 /dev/zero >$HEADRACE_ENV; printf "A=\\0\\n" >$HEADRACE_SECRET_ENV; exit 9',
      links: `rm -f $HEADRACE_ENV 2>&1; ln -sf /etc/passwd $HEADRACE_ENV 2>&1; mv /dev/shm/headrace /dev/shm/x 2>&1
        mkfifo $HEADRACE_SECRET_ENV 2>&1; exit 9`,
    };
    const ids: Record<string, string> = {};
    for (const [name, command] of Object.entries(attacks))
      ids[name] = await suite(t, name, [[command], ['echo "<$A>"', 'always']]);
    await project.repository.commit({ message: 'Attack' });
    assert.equal((await project.build('main')).build_state, 'failed');
    for (const [name, id] of Object.entries(ids)) {
      const { build_state: state, exit_status: status, short, log } = await buildOf(id);
      assert.equal(state, 'failed', name);
      if (name !== 'leader' && name !== 'forger')
        assert.deepEqual([short[0]?.[1], short[1]?.[1]], ['failed', 'passed'], log);
      if (name === 'leader') assert.deepEqual([status, short[1]?.[1]], [143, 'failed']);
    }
    assert.match(
      (await buildOf(ids.flood ?? '')).log,
      /HEADRACE_ENV: it is too long, so all of it is ignored\.\n<>\n$/,
    );
    assert.doesNotMatch((await buildOf(ids.links ?? '')).log, /HEADRACE_(SECRET_)?ENV: /, 'nothing was read');
  });

  test('steps can be watched while they run, and none begins after a cancel or a time-out', async (t) => {
    const id = await suite(t, 'watched', [['true'], ['echo begun; sleep 1000'], ['echo never', 'always']]);
    const slow = await suite(t, 'slow', [['sleep 1000'], ['echo never', 'always']]);
    // Enough for the first step to begin, also on a busy machine: what never began has not failed.
    await installation.api().put(`${project.path}/suites/${slow}`, { timeout: '5' });
    await project.repository.commit({ message: 'Watch' });
    const request = await project.ask('main');
    await project.untilLogged(id, /begun/);
    const running = [['s0', 'passed', 0, 1], ['s1', 'running', null, 1], ['s2', 'waiting', null, null]]; // oxfmt-ignore
    for (const wait = growingPauses(); JSON.stringify((await buildOf(id)).short) !== JSON.stringify(running);)
      await wait();
    for (const wait = growingPauses(); (await buildOf(slow)).build_state !== 'timed_out';) await wait();
    await project.cancel(request);
    await project.end(request);
    const states = async (of: string) => (await buildOf(of)).short.map(([, state]) => state);
    assert.deepEqual(await states(id), ['passed', 'cancelled', 'skipped']);
    assert.deepEqual(await states(slow), ['failed', 'skipped']);
    assert.doesNotMatch((await buildOf(id)).log, /never/);
  });
});
