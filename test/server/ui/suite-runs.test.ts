import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { recordHeartbeat } from '../../../src/server/auth/runner-heartbeats.ts';
import type { Record_ } from '../../support/client.ts';
import { describeWithRunnerOnOne } from '../../support/runner.ts';
import { runningBuild, type RunningBuild } from '../../support/running-build.ts';
import { SuiteRuns } from '../../support/suite-runs.ts';
import { Tab } from '../../support/tab.ts';
import type { User } from '../../support/user.ts';

describeWithRunnerOnOne('the pages of suites and their builds', (service, runner) => {
  let alice: User;
  let tab: Tab;
  before(async () => {
    alice = await service.user();
    tab = new Tab(service);
    await tab.signIn(alice.credentials);
  });
  const begin = (): Promise<SuiteRuns> => SuiteRuns.begin(alice, runner);
  const send = async (page: string, action: string, fields: Record<string, string>) =>
    tab.submit(await tab.get(page), page, { do: action, ...fields });
  const one = (text: string): string => text.replaceAll(/\s+/g, ' ');

  test('take how a suite is run, show it again, and say at the field what is wrong', async () => {
    const runs = await begin();
    const at = `/ui${runs.path}/settings/suites`;
    const described = { name: 'unit', command: 'make', timeout: '60', retries: '2', allow_failure: 'true' };
    assert.equal((await send(at, 'create', { ...described, 'matrix[]': 'A=1,2\r\nB=x\r\n' })).status, 303);
    const [suite] = (await alice.get(`${runs.path}/suites`)).list as [Record_];
    const { timeout, retries, allow_failure: mayFail, matrix } = suite;
    assert.deepEqual([timeout, retries, mayFail, matrix], [60, 2, true, ['A=1,2', 'B=x']]);
    const page = (await tab.get(`${at}/${suite.id}`)).text;
    assert.match(page, />\s*A=1,2\nB=x<\/textarea>/);
    const lines = { 'matrix_exclude[]': 'A=1', 'matrix_include[]': 'A=9 C=1', 'matrix_allow_failure[]': 'C=1' };
    const wide = { ...described, 'matrix[]': 'A=1,2\nB=x' };
    assert.equal((await send(`${at}/${suite.id}`, 'save', { ...wide, ...lines })).status, 303);
    const again = (await tab.get(`${at}/${suite.id}`)).text;
    assert.match(again, /Matrix: 2 variants/);
    for (const line of Object.values(lines)) assert.match(again, new RegExp(`>\\s*${line}</textarea>`));
    const nothing = await send(`${at}/${suite.id}`, 'save', {
      ...wide,
      'matrix_exclude[]': 'B=x',
      'matrix_include[]': '',
    });
    assert.match(one(nothing.text), /B=x<\/textarea> <p class="mistake"[^>]*>Each line names variables with one value/);
    const plainAgain = { 'matrix_exclude[]': '', 'matrix_include[]': '', 'matrix_allow_failure[]': '' };
    assert.equal((await send(`${at}/${suite.id}`, 'save', { ...wide, ...plainAgain })).status, 303);
    const wrong = { name: 'unit', command: 'make', timeout: '9999', retries: '4', 'matrix[]': 'A=1,1' };
    const refused = await send(`${at}/${suite.id}`, 'save', wrong);
    assert.equal(refused.status, 403);
    assert.match(refused.text, /more than the server allows/);
    assert.match(refused.text, /no number from 0 to 3/);
    assert.match(one(refused.text), /A=1,1<\/textarea> <p class="mistake"[^>]*>Each line is a different variable/);
    const reserved = await send(`${at}/${suite.id}`, 'save', { ...described, 'matrix[]': 'HEADRACE_X=1' });
    assert.match(reserved.text, /Matrix is reserved/);
    const plain = { name: 'unit', command: 'make', timeout: '0', retries: '0', 'matrix[]': '' };
    assert.equal((await send(`${at}/${suite.id}`, 'save', plain)).status, 303);
    const changed = (await alice.get(`${runs.path}/suites/${suite.id}`)).record;
    assert.deepEqual([changed.allow_failure, changed.matrix], [false, []]);
  });

  test('show name and command, and what all other groups of fields are set to', async () => {
    const runs = await begin();
    const at = `/ui${runs.path}/settings/suites`;
    /** The lines of the groups of a form, those that are open with a + before them. */
    const groups = (text: string): string[] =>
      Array.from(text.matchAll(/<details class="group"([^>]*)>\s*<summary>([^<]*)</g), ([, open = '', line = '']) =>
        open.includes('open') ? `+ ${line}` : line,
      );
    const plain = [
      'Services: none',
      'Runner: any',
      'Start: by itself',
      'Matrix: none',
      'Cache: none',
      'Reuse: off',
      'Timeout: the server’s, retries: none',
      'Test reports: none, artifacts: none',
      'Tokens: none',
      'Description: none',
    ];
    assert.deepEqual(groups((await tab.get(at)).text), plain);
    const fields = {
      name: 'unit',
      command: 'make',
      description: 'All of it\n\nreally',
      image: 'node:22',
      'tags[]': 'linux gpu',
      'cache[]': 'node_modules\n~/.npm',
      cache_save: 'always',
      reuse: 'on',
      'inputs[]': 'src\n*.json',
      'ignore_variables[]': 'TOKEN',
      reuse_days: '7',
      uses_request: 'true',
      'matrix[]': 'NODE=20,22,24\nDB=a,b',
      timeout: '90',
      retries: '2',
      'retry_on[]': 'errored',
      allow_failure: 'true',
      'reports[]': 'report.xml',
      'artifacts[]': 'dist\n*.log',
    };
    assert.equal((await send(at, 'create', fields)).status, 303);
    const [suite] = (await alice.get(`${runs.path}/suites`)).list as [Record_];
    const saved = [
      'Services: none',
      'Runner: with the tags gpu linux',
      'Start: by itself',
      'Matrix: 6 variants',
      'Cache: 2 paths',
      'Reuse: on, 7 days, files of 2 patterns, without 1 variable, with the request',
      'Timeout: 90 s, retries: 2, may fail',
      'Test reports: 1 pattern, artifacts: 2 patterns',
      'Tokens: none',
      'Description: All of it',
    ];
    const page = (await tab.get(`${at}/${suite.id}`)).text;
    assert.deepEqual(groups(page), saved);
    assert.match(page, /<option value="always" selected>passed and failed builds/);
    const [first = ''] = page.split('<details class="group"', 1);
    const labels = Array.from(first.matchAll(/<(?:label for|legend)[^>]*>([^<]*)</g), ([, label]) => label);
    assert.deepEqual(labels.filter((label) => !label?.startsWith('Step ') && label !== 'Runs').slice(-4), [
      'Name',
      'What runs',
      'Command',
      'Image',
    ]);
    // What was typed stays, also in the lines, and what is wrong can be seen.
    const typed = { ...fields, image: 'node:24', 'cache[]': '/etc\na\nb', retries: '9' };
    const refused = await send(`${at}/${suite.id}`, 'save', typed);
    assert.equal(refused.status, 403);
    assert.deepEqual(groups(refused.text), [
      'Services: none',
      'Runner: with the tags linux gpu',
      ...saved.slice(2, 4),
      '+ Cache: 3 paths',
      saved[5],
      '+ Timeout: 90 s, retries: 9, may fail',
      ...saved.slice(7),
    ]);
    assert.match(refused.text, /value="node:24"/);
    // Steps in place of the command, in the rows that are there.
    const steps = { command: '', 'steps[0][name]': 'one', 'steps[0][command]': 'make', 'steps[2][name]': 'two' };
    const lacking = await send(`${at}/${suite.id}`, 'save', { ...fields, ...steps });
    assert.equal(lacking.status, 403);
    assert.match(lacking.text, /Step command is missing/);
    const whole = { ...steps, 'steps[2][command]': 'make test', 'steps[2][when]': 'always' };
    assert.equal((await send(`${at}/${suite.id}`, 'save', { ...fields, ...whole })).status, 303);
    const stepwise = (await tab.get(`${at}/${suite.id}`)).text;
    assert.match(stepwise, /name="steps\[1\]\[name\]"[^>]*value="two"/s);
    assert.match(stepwise, /name="runs" value="steps" checked/);
    // Only the chosen part counts, whatever the other one holds.
    const both = { ...fields, ...whole, command: 'make', runs: 'steps' };
    assert.equal((await send(`${at}/${suite.id}`, 'save', both)).status, 303);
    assert.equal((await alice.get(`${runs.path}/suites/${suite.id}`)).record.command, '');
    assert.equal((await send(`${at}/${suite.id}`, 'save', { ...both, runs: 'command' })).status, 303);
    assert.deepEqual((await alice.get(`${runs.path}/suites/${suite.id}`)).record.steps, []);
    const neither = await send(`${at}/${suite.id}`, 'save', { ...fields, runs: 'steps' });
    assert.match(neither.text, /Command is missing/);
    const bare = await send(at, 'create', { name: 'bare', command: 'make', runs: 'steps' });
    assert.match(bare.text, /Command is missing/);
    assert.equal((await send(`${at}/${suite.id}`, 'save', { ...fields, ...whole })).status, 303);
    assert.match(stepwise, /<option value="always" selected>in both cases/);
    // Whose files it begins with is one that it needs.
    const compile = await runs.suite({ name: 'compile' });
    const taking = { ...fields, ...whole, 'needs[]': '', files_from_id: compile.id_str };
    const notNeeded = await send(`${at}/${suite.id}`, 'save', taking);
    assert.equal(notNeeded.status, 403);
    assert.equal(groups(notNeeded.text)[2], '+ Start: by itself, files of compile');
    assert.match(notNeeded.text, /It has to be one of those that this suite needs/);
    assert.equal((await send(`${at}/${suite.id}`, 'save', { ...taking, 'needs[]': compile.id_str })).status, 303);
    const filed = (await tab.get(`${at}/${suite.id}`)).text;
    assert.equal(groups(filed)[2], 'Start: by itself, files of compile');
    assert.match(filed, new RegExp(`name="needs\\[\\]"\\s+value="${compile.id_str}"\\s+checked`));
    const list = (await tab.get(at)).text;
    const chips = Array.from(list.matchAll(/<span class="chip">([^<]*)</g), ([, chip]) => chip);
    assert.deepEqual(chips, ['needs compile', 'matrix ×6', 'may fail']);
    assert.match(list, /aria-label="Drawing of the suites"/);
    assert.match(filed, new RegExp(`<option value="${compile.id_str}" selected>compile<`));
  });

  test('ask for some suites only, and say which were left out for that', async () => {
    const runs = await begin();
    const [unit] = [await runs.suite({ name: 'unit' }), await runs.suite({ name: 'lint' })];
    const at = `/ui${runs.path}`;
    const page = await tab.get(at);
    assert.match(page.text, /Some suites only/);
    const asked = await send(at, 'run', { commit_ref: 'main', 'suites[]': unit.id_str });
    assert.equal(asked.status, 303);
    await (await runner.take('fetch_commit')).fetched();
    await (await runner.take('run_suite')).exit(0);
    await runner.assertIdle();
    const request = (await tab.get(String(asked.headers.location))).text;
    assert.match(one(request), /<b>lint<\/b> <span class="aside">It was not requested/);
    const [commit] = (await alice.get(`${runs.path}/commits`)).list;
    const doomed = await runs.suite({ name: 'doomed' });
    const stale = await tab.get(`${at}/commits/${commit?.id}`);
    await alice.delete(`${runs.path}/suites/${doomed.id}`);
    const fields = { do: 'run', 'suites[]': doomed.id_str };
    const refused = await tab.submit(stale, `${at}/commits/${commit?.id}`, fields);
    assert.equal(refused.status, 404);
    assert.match(refused.text, /names nothing that is there/);
  });

  test('ask for a build with variables, and show them with the request', async () => {
    const runs = await begin();
    await runs.suite({ name: 'unit' });
    const at = `/ui${runs.path}`;
    for (const variables of ['NO VALUE', 'A=1\nA=2', '=x', 'CI=no']) {
      const refused = await send(at, 'run', { commit_ref: 'main', variables });
      assert.equal(refused.status, 403, variables);
      assert.match(refused.text, /id="[^"]*variables[^"]*-mistake"/);
      assert.ok(refused.text.includes(`${variables}</textarea>`), 'what was typed stays');
      assert.equal(/>CI is reserved: choose another\.</.test(refused.text), variables === 'CI=no');
    }
    const asked = await send(at, 'run', { commit_ref: 'main', variables: 'STAGE=<b>x</b>=y\r\n\r\nOTHER=\r\n' });
    assert.equal(asked.status, 303);
    await (await runner.take('fetch_commit')).fetched();
    const build = await runner.take('run_suite');
    const { STAGE, OTHER } = build.order.work.environment;
    assert.deepEqual([STAGE, OTHER], ['<b>x</b>=y', '']);
    await build.exit(0);
    const request = one((await tab.get(String(asked.headers.location))).text);
    assert.match(request, /<code>STAGE<\/code><\/dt> ?<dd> ?<code class="content">&lt;b&gt;x&lt;\/b&gt;=y<\/code>/);
  });

  test('offer a shell in a build that failed where one can be opened, and only there', async () => {
    await recordHeartbeat(service.store.db, runner.self, { version: '', trouble: '' });
    const files = { location: 'location', name: 'name', key: 'ab'.repeat(32) };
    const [kept, gone] = [await runningBuild(alice, runner), await runningBuild(alice, runner)];
    await kept.task.exit(1, { kept: files });
    await gone.task.exit(1);
    const command = ({ id }: RunningBuild): string => `headrace shell ${id}`;
    assert.ok((await tab.get(`/ui${kept.path}/details`)).text.includes(command(kept)));
    assert.ok(!(await tab.get(`/ui${gone.path}/details`)).text.includes(command(gone)));
  });

  test('show variants together, allowed failures as such, and what is flaky', async () => {
    const runs = await begin();
    await runs.suite({ name: 'unit', 'matrix[]': 'A=1,2\nB=x', retries: '1' });
    await runs.suite({ name: 'lint', allow_failure: 'true' });
    const request = await runs.fetched();
    for (const [variant, task] of await runs.take(3)) {
      if (variant === '') await task.writeLog('an unused variable\n');
      await task.exit(variant === 'A=1 B=x' ? 0 : 1);
    }
    await (await runner.take('run_suite')).exit(0);
    assert.equal(await runs.rolledUp(request), 'passed passed passed');
    const builds = await runs.builds();
    const [commit] = (await alice.get(`${runs.path}/commits`)).list;
    const at = `/ui${runs.path}`;
    for (const page of [`${at}/commits/${commit?.id}`, `${at}/requests/${request.id}`]) {
      const text = one((await tab.get(page)).text);
      assert.match(text, /<summary>unit <span class="aside">2 passed<\/span><\/summary>/, page);
      assert.match(text, />unit \(A=2 B=x\)<\/a>/, page);
      assert.match(text, /failed, allowed/, page);
      assert.match(text, /<code>an unused variable<\/code>/, `${page} shows the last line`);
      assert.match(text, /flaky/, page);
    }
    const ofCommit = one((await tab.get(`${at}/commits/${commit?.id}`)).text);
    assert.match(
      ofCommit,
      new RegExp(`href="${at}/requests/${request.id}">[^<]+</a> <span class="aside">asked for by`),
    );
    assert.match((await tab.get(at)).text, /aria-label="lint: failed, allowed"/);
    const flaky = builds.find((build) => build.flaky);
    const own = one((await tab.get(`${at}/builds/${flaky?.id}`)).text);
    assert.match(own, /<h1>unit \(A=2 B=x\) <span class="aside">attempt 2<\/span><\/h1>/);
    assert.match(own, /Flaky: it failed, and passed when it was tried again\./);
    const marks = own.match(/aria-label="Attempt \d: \w+/g);
    assert.deepEqual(
      marks,
      ['aria-label="Attempt 1: failed', 'aria-label="Attempt 2: passed'],
      'of this variant alone',
    );
  });
});
