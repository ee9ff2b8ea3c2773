import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, test, type TestContext } from 'node:test';
import { removeTree } from '../../src/shared/lib/remove-tree.ts';
import { command } from '../support/command.ts';
import { onOneDatabase, temporaryFolder } from '../support/databases.ts';
import { Developer } from '../support/developer.ts';
import { startInstallation, type Build, type Installation, type Item, type Project } from '../support/installation.ts';
import { growingPauses, longestWait } from '../support/pauses.ts';
import { startProgram } from '../support/program.ts';

interface Stepped extends Build {
  steps: { name: string; state: string; started_at: string; finished_at: string }[];
}

/** Builds whose runner is lost, with real servers, runners and sandboxes. The runners have one tag. */
onOneDatabase((database) => {
  let installation: Installation;
  let project: Project;
  before(async () => {
    installation = await startInstallation(database);
    project = await installation.project();
  });

  const running: ReturnType<typeof startProgram>[] = [];
  const runner = async (t: TestContext) => {
    const folder = temporaryFolder();
    const made = await command(
      ['admin', 'runner', 'create', `r${Math.random()}`, '--data-dir', installation.folder],
      installation.env,
    );
    writeFileSync(join(folder, 'token'), (JSON.parse(made.stdout.toString()) as { token: string }).token, {
      mode: 0o600,
    });
    const kills: (() => unknown)[] = [];
    const address = ['--url', installation.address(), '--ca-file', join(installation.folder, 'tls', 'cert.pem')];
    const own = ['--token-file', join(folder, 'token'), '--data-dir', join(folder, 'data'), '--tag', 'moving'];
    const program = startProgram({ afterwards: (kill) => void kills.push(kill) }, ['runner', ...address, ...own], {
      HEADRACE_SSH_CONFIG: installation.host.sshConfig,
      HEADRACE_BUILD_NETWORK: 'none',
      HEADRACE_CONCURRENCY: '1',
    });
    running.push(program);
    t.after(async () => {
      for (const kill of kills) await kill();
      await removeTree(folder);
    });
    return {
      program,
      async kill() {
        program.process.kill('SIGKILL');
        await program.exited;
      },
    };
  };

  const suiteOf = (t: TestContext, commands: string[], more: Record<string, string> = {}): Promise<string> => {
    const steps = commands.flatMap((line, at) => [
      [`steps[${at}][name]`, `s${at}`],
      [`steps[${at}][command]`, line],
    ]);
    const fields = { ...Object.fromEntries(steps), 'tags[]': 'moving', resume: 'true', ...more };
    return project.suite(t, `suite ${Math.random()}`, '', fields as Record<string, string>);
  };
  /** The rows that say where builds can go on. */
  const points = async (): Promise<{ step: string; facts: string }[]> => {
    const { openDatabase } = await import('../../src/server/db/open.ts');
    const url = installation.env.HEADRACE_DATABASE_URL ?? join(installation.folder, 'headrace.db');
    const db = await openDatabase({ url });
    try {
      return await db.read.selectFrom('step_points').select(['step', 'facts']).execute();
    } finally {
      await db.close();
    }
  };
  const untilPoint = async (step: string): Promise<void> => {
    const wait = growingPauses();
    for (const startedAt = Date.now(); !(await points()).some((one) => one.step === step); await wait()) {
      const told = (): string => running.map((one) => one.said()).join('\n');
      assert.ok(Date.now() - startedAt < longestWait / 5, told());
    }
  };
  const attempts = async (request: Item): Promise<Stepped[]> => {
    const { commit_id_str: id } = await project.api().get(`${project.path}/build_requests/${request.id_str}`);
    return (await project.api().get<Stepped[]>(`${project.path}/commits/${String(id)}/builds`)).toReversed();
  };
  const asked = async (): Promise<Item> => {
    await project.repository.commit({ on: 'main', files: { 'tracked.txt': 'tracked\n' } });
    return project.ask('main');
  };
  const hang = '[ "$HEADRACE_ATTEMPT" != 1 ] || { echo hangs; sleep 1000; }';

  test('another runner goes on at the first step that was not done', async (t) => {
    const secret = 'from-a-vault-7';
    await suiteOf(t, [
      `echo "made by $HEADRACE_ATTEMPT" >made; echo home >~/h; echo tmp >/tmp/t; rm tracked.txt; ln -s made link
       echo "ADDED=added by $HEADRACE_ATTEMPT" >$HEADRACE_ENV; echo HIDDEN=${secret} >$HEADRACE_SECRET_ENV`,
      'echo second >>made',
      `${hang}; cat link ~/h /tmp/t; [ ! -e tracked.txt ]; echo "$ADDED, hidden $HIDDEN"; stat -c %a /tmp`,
      'echo last; exit 3',
    ]);
    const lost = await runner(t);
    const request = await asked();
    await untilPoint('s2');
    for (const { facts } of await points()) assert.doesNotMatch(facts, /vault|added/, 'facts are encrypted');
    await lost.kill();
    await runner(t);
    await project.end(request);
    const [first, second] = await attempts(request);
    assert.deepEqual([first?.build_state, first?.failure_reason], ['errored', 'runner_lost']);
    assert.equal(
      second && (await project.log(second)),
      `This starts at the step s2, with the files and variables of build ${first?.id_str}.\n` +
        'made by 1\nsecond\nhome\ntmp\nadded by 1, hidden [masked]\n1777\nlast\n',
    );
    assert.deepEqual(
      second?.steps.map(({ state }) => state),
      ['passed', 'passed', 'passed', 'failed'],
    );
    const began = first?.steps.map((step) => step.started_at).slice(0, 2);
    assert.deepEqual(
      second?.steps.slice(0, 2).map((step) => step.started_at.slice(0, 18)),
      began?.map((at) => at.slice(0, 18)),
    );
    assert.deepEqual(await points(), []);
    // What it left in turn is whole: for a shell, and for a restart from a step.
    const developer = await Developer.at(installation, installation.admin.email);
    developer.clone(installation.host.url('app.git'));
    const shell = await developer.run(['shell', second?.id_str ?? ''], 'cat made /tmp/t; ls ~; echo "$ADDED $HIDDEN"');
    assert.equal(shell.out, `made by 1\nsecond\ntmp\nh\nadded by 1 ${secret}\n`, shell.err);
    const again = await developer.run(['restart', second?.id_str ?? '', '--from-step', 's2', '-f']);
    assert.match(again.out, /This starts at the step s2, .*\nmade by 1\nsecond\nhome\ntmp\n/, again.err);
  });
});
