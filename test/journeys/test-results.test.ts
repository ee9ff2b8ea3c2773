import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { onOneDatabase } from '../support/databases.ts';
import { createGate } from '../support/gate.ts';
import { startInstallation, type Build, type Installation, type Project } from '../support/installation.ts';

const samples = join(import.meta.dirname, '../shared/junit/samples');
const reports = Object.fromEntries(
  readdirSync(samples).map((name) => [`reports/${name}`, readFileSync(join(samples, name), 'utf8')]),
);

interface Test {
  name: string;
  class: string;
  suite: string;
  state: string;
  message: string;
}

/** The reports of real builds, by a real runner in its sandboxes. */
onOneDatabase((database) => {
  let installation: Installation;
  let project: Project;
  before(async () => {
    installation = await startInstallation(database);
    project = await installation.project();
  });

  const expectReports = async (suite: string, ...globs: string[]): Promise<void> => {
    const form = { 'reports[]': globs.join('\n') };
    const { reports: kept } = await project.api().put(`${project.path}/suites/${suite}`, form);
    assert.deepEqual(kept, globs);
  };
  const attemptsOf = async (suite: string): Promise<Build[]> => {
    const [commit] = await project.commits();
    return (await project.builds(commit)).filter((build) => build.suite_id_str === suite);
  };
  const newest = async (suite: string): Promise<Build> =>
    (await attemptsOf(suite))[0] ?? assert.fail('nothing was built');
  const testsOf = (build: Build, query = ''): Promise<Test[]> =>
    project.api().get<Test[]>(`${project.path}/builds/${build.id_str}/tests${query}`);
  const counts = (build: Build): unknown[] => [build.tests_passed, build.tests_failed, build.tests_skipped];

  test('the reports of every tool are counted and listed, and what was flaky is told', async (t) => {
    const suite = await project.suite(t, 'unit', 'echo "at work"; exit 1');
    await expectReports(suite, 'reports/*.xml', 'none/*.xml');
    await project.repository.commit({ message: 'Report', files: reports });
    assert.equal((await project.build('main')).build_state, 'failed');
    const build = await newest(suite);
    assert.deepEqual(counts(build), [10, 10, 6]);
    const log = await project.log(build);
    assert.match(
      log,
      /^at work\n\nNo file matches the report pattern none\/\*\.xml\.\nTests: 10 passed, 10 failed, 6 skipped, in 7 reports\.\n$/,
    );
    const failed = await testsOf(build, '?state=failed');
    assert.equal(failed.length, 10);
    assert.ok(failed.every(({ message, state }) => message !== '' && state === 'failed'));
    const surefire = (await testsOf(build)).filter(({ suite: of }) => of === 'org.example.CartTest');
    assert.deepEqual(
      surefire.map(({ name }) => name),
      ['total', 'discount', 'stored', 'sent'],
    );
    const flaky = await project.api().get<Test[]>(`${project.path}/tests/flaky`);
    assert.deepEqual(flaky.map(({ class: of, name }) => `${of} ${name}`).toSorted(), [
      'example.org/shop/cart TestStored',
      'org.example.CartTest stored',
      'shop::cart tests::stored',
    ]);
    const [slowest] = await project
      .api()
      .get<(Test & { duration_ms: number; runs: number })[]>(`${project.path}/tests/slow`);
    assert.deepEqual([slowest?.name, slowest?.duration_ms, slowest?.runs], ['total', 1_230_004, 1]);
  });

  test('a test that passes when the build is run again is flaky, with its message masked', async (t) => {
    const report = (inside: string): string =>
      `echo '<testsuite name="s"><testcase name="moody">${inside}</testcase></testsuite>' | sed "s/WHY/$TOKEN/" > r.xml`;
    const suite = await project.suite(t, 'moody', `${report('<failure message="WHY"/>')}; exit 1`);
    await project.variable(suite, 'TOKEN', 's3cr3t-t0ken');
    await expectReports(suite, 'r.xml');
    await project.repository.commit({ message: 'Sulk' });
    assert.equal((await project.build('main')).build_state, 'failed');
    const first = await newest(suite);
    await project.command(suite, report(''));
    const request = await project.ask('main');
    assert.equal((await project.end(request)).build_state, 'passed');
    const second = await newest(suite);
    assert.deepEqual(
      [counts(first), counts(second)],
      [
        [0, 1, 0],
        [1, 0, 0],
      ],
    );
    const flaky = await project
      .api()
      .get<(Test & { failures: number; passes: number })[]>(`${project.path}/tests/flaky`);
    const moody = flaky.find(({ name }) => name === 'moody');
    assert.deepEqual([moody?.failures, moody?.passes, moody?.message], [1, 1, '[masked]']);
  });

  test('reports that are hostile or broken cost nothing but a line [promise: build-reports]', async (t) => {
    const laughs = Array.from({ length: 9 }, (_, at) => `<!ENTITY l${at + 1} "${`&l${at};`.repeat(10)}">`).join('');
    const command = `
      echo '<!DOCTYPE a [<!ENTITY l0 "lol">${laughs}]><testsuite><testcase name="&l9;"/></testsuite>' > 1.xml
      echo '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/hostname">]><testsuite><testcase name="&x;"/></testsuite>' > 2.xml
      echo '<!DOCTYPE a [<!ENTITY x SYSTEM "http://127.0.0.1:8443/x">]><testsuite><testcase name="&x;"/></testsuite>' > 3.xml
      printf '<testsuite><testcase name="nul \\000 \\033[31m &lt;script&gt;alert(1)&lt;/script&gt;"/></testsuite>' > 4.xml
      echo '<testsuite><testcase name="half"/><testcase na' > 5.xml
      head -c 100000 /dev/urandom > 6.xml
      : > 7.xml
      ln -s /etc/passwd 8.xml; mkfifo 9.xml`;
    const suite = await project.suite(t, 'hostile', command);
    await expectReports(suite, '*.xml');
    await project.repository.commit({ message: 'Attack' });
    assert.equal((await project.build('main')).build_state, 'passed');
    const build = await newest(suite);
    assert.deepEqual(counts(build), [2, 0, 0]);
    const names = (await testsOf(build)).map(({ name }) => name);
    assert.deepEqual(names, ['nul \uFFFD \uFFFD[31m <script>alert(1)</script>', 'half']);
    const log = await project.log(build);
    for (const at of [1, 2, 3, 5, 6, 7])
      assert.match(log, new RegExp(`^The report ${at}\\.xml could not be read: `, 'm'));
    assert.match(log, /^Tests: 2 passed, 0 failed, 0 skipped, in 7 reports\.$/m);
  });

  test('a runner that is killed while it reads leaves no half results', async (t) => {
    const line = '<testcase name=\\"n$_\\"><system-out>".("x" x 2000)."</system-out></testcase>';
    const write = `perl -e 'print "<testsuite>"; print "${line}" for 1..20000; print "</testsuite>"' > r.xml; echo written`;
    // The first attempt waits, so that the report is not read before the test looks.
    const gate = createGate();
    const command = `${write}; test "$HEADRACE_ATTEMPT" -ge 2 || ${gate.command}`;
    const suite = await project.suite(t, 'long', command);
    await expectReports(suite, 'r.xml');
    await project.repository.commit({ message: 'Report much' });
    const request = await project.ask('main');
    await project.untilLogged(suite, /written/);
    await gate.open();
    await installation.killRunner();
    assert.equal((await project.end(request)).build_state, 'passed');
    const [second, first] = await attemptsOf(suite);
    assert.ok(first && second);
    assert.equal(first.failure_reason, 'runner_lost');
    assert.deepEqual([counts(first), await testsOf(first)], [[0, 0, 0], []]);
    assert.deepEqual(counts(second), [20_000, 0, 0]);
    assert.equal((await testsOf(second, '?limit=1000&after=19990')).length, 10);
  });
});
