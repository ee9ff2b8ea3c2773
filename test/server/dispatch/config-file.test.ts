import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { inspect } from 'node:util';
import { stringify } from 'smol-toml';
import type { CommitReport, ConfigFile } from '../../../src/shared/protocol/index.ts';
import { testsOnOne } from '../../support/databases.ts';
import type { Record_ } from '../../support/client.ts';
import { aCommit, describeWithRunner } from '../../support/runner.ts';
import type { User } from '../../support/user.ts';

const shaOf = (number: number): string => number.toString(16).padStart(40, '0');
let number = 0;

describeWithRunner('a project that is configured by a file in its repository', (service, runner, database) => {
  const testOnOne = testsOnOne(database);
  let alice: User;
  let project: Record_;
  let path: string;
  /** The newest commit of the default branch, as the server knows it. */
  let defaultHead: string | null;
  beforeEach(async () => {
    alice = await service.user();
    project = await alice.createProject({ config_file: '.headrace.toml' });
    path = `/projects/${project.id}`;
    defaultHead = null;
  });

  const ask = (fields: Record<string, string> = {}) =>
    alice.post(`${path}/build_requests`, { commit_ref: 'main', ...fields });
  const logOf = async (request: Record_) => (await alice.get(`${path}/build_requests/${request.id}/log.txt`)).text;
  const suites = async () => (await alice.get(`${path}/suites`)).list;
  const found = (config?: ConfigFile, commit: Partial<CommitReport> = {}) => {
    const sha = shaOf((number += 1));
    return {
      kind: 'fetched' as const,
      commit: { ...aCommit, sha, ...commit },
      ...(config && { config: { ...config, path: '.headrace.toml', before: defaultHead } }),
    };
  };
  /** Builds a commit with this file, and answers the request and its log. */
  const build = async (file: object | string | ConfigFile, commit: Partial<CommitReport> = {}) => {
    const { record } = await ask();
    const task = await runner.take('fetch_commit');
    assert.equal(task.order.work.configFile, '.headrace.toml');
    assert.equal(task.order.work.defaultHead, defaultHead);
    await task.writeLog('Found it.\n');
    const isRead = typeof file === 'object' && ('problem' in file || 'text' in file);
    const config = isRead ? file : { text: typeof file === 'string' ? file : stringify(file) };
    const outcome = found(config, commit);
    assert.deepEqual(await task.finish(outcome), { taken: true });
    const request = (await alice.get(`${path}/build_requests/${record.id}`)).record;
    if (request.build_state !== 'errored') defaultHead = outcome.commit.sha;
    return { request, log: await logOf(record), sha: outcome.commit.sha };
  };
  const endBuilds = async (count: number): Promise<string[]> => {
    const commands: string[] = [];
    for (let at = 0; at < count; at += 1) {
      const task = await runner.take('run_suite');
      commands.push(task.order.work.steps[0]?.command ?? '');
      await task.exit(0);
    }
    await runner.assertIdle();
    return commands;
  };

  test('builds with what the file of the commit says, and the audit log names the commit', async () => {
    const unit = { name: 'unit', command: 'make test', rules: [], tags: [] };
    const first = await build({ suites: [unit, { name: 'lint', command: 'make lint' }] });
    assert.match(first.log, /^Found it\.\nConfigured by \.headrace\.toml: 2 changes\.\n$/);
    assert.deepEqual((await endBuilds(2)).toSorted(), ['make lint', 'make test']);
    const entries = await service.store.db.read
      .selectFrom('audit_entries')
      .selectAll()
      .where('project_id', '=', project.id)
      .where('via', '=', 'repository')
      .orderBy('id')
      .execute();
    assert.deepEqual(
      entries.map(({ action }) => action),
      ['suite.created', 'suite.created', 'project.configured'],
    );
    assert.deepEqual(JSON.parse(entries.at(-1)?.details ?? ''), {
      commit: first.sha,
      file: '.headrace.toml',
      sender: '',
      changes: ['create suite unit', 'create suite lint'],
    });

    const again = await build({ suites: [unit, { name: 'lint', command: 'make lint' }] });
    assert.match(again.log, /Configured by \.headrace\.toml: nothing to change\.\n$/);
    await endBuilds(2);

    const document = {
      name: project.name,
      suites: [
        { ...unit, command: 'make check', rules: [{ subject: 'commit.branches', operator: 'equals', value: 'x' }] },
      ],
      deploy_strategies: [
        {
          name: 'live',
          strategy_type: 'git',
          repository_url: 'deploy@example.org:live.git',
          local_branch: 'main',
          remote_branch: 'main',
        },
      ],
      schedules: [{ cron: '0 3 * * *' }],
    };
    const { log } = await build(document);
    assert.match(log, /4 changes\.\nThe suite lint is not in the file\. It stays until a user deletes it/);
    assert.deepEqual(await endBuilds(0), [], 'the rule holds at once, and only suites of the file are run');
    assert.equal((await alice.get(`${path}/schedules`)).list.length, 1);
    await build({ suites: [{ ...unit, command: 'make check' }] });
    assert.deepEqual(await endBuilds(1), ['make check'], 'a rule goes with the file');
    assert.equal((await alice.get(`${path}/deploy_strategies`)).list.length, 1, 'and nothing else does');
  });

  test('adds gates, and takes away only its own [promise: branch-file]', async () => {
    const ship = { name: 'ship', command: 'make ship' };
    const suite = async () => (await suites()).find(({ name }) => name === 'ship') ?? assert.fail();
    const said = (log: string): string => log.slice(log.indexOf('Configured by'));
    const statesOf = async ({ id }: Record_) =>
      (await alice.get(`${path}/build_requests/${id}/builds`)).list.map(({ build_state: state }) => state);
    await build({ suites: [{ ...ship, approval: true }] });
    assert.equal((await suite()).approval, true);
    const own = await build({ suites: [ship] });
    assert.equal(said(own.log), 'Configured by .headrace.toml: 1 change.\n');
    assert.deepEqual(await endBuilds(1), ['make ship'], 'what the file has set it takes away');

    // Somebody sets both in the settings. The file does not know of it, or says the contrary, or has asked for it too.
    await alice.put(`${path}/suites/${(await suite()).id}`, { approval: 'true', manual: 'true' });
    const keeps = (gate: string) =>
      `The suite ship keeps ${gate} = true: a user set it in the settings, so only a user can remove it there.\n`;
    for (const [file, kept] of [
      [ship, ['approval', 'manual']],
      [{ ...ship, approval: false, manual: false }, ['approval', 'manual']],
      [{ ...ship, approval: true, manual: true }, []],
      [{ ...ship, approval: false, manual: true }, ['approval']],
    ] as const) {
      const { log, request } = await build({ suites: [file] });
      assert.equal(said(log), `Configured by .headrace.toml: nothing to change.\n${kept.map(keeps).join('')}`);
      assert.deepEqual([(await suite()).approval, (await suite()).manual], [true, true]);
      await runner.assertIdle();
      assert.deepEqual(await statesOf(request), []);
    }
    // A person takes one away, and the other one stays.
    await alice.put(`${path}/suites/${(await suite()).id}`, { manual: 'false' });
    const last = await build({ suites: [ship] });
    assert.equal(said(last.log), `Configured by .headrace.toml: nothing to change.\n${keeps('approval')}`);
    await runner.assertIdle();
    assert.deepEqual(await statesOf(last.request), ['waiting_for_approval']);
    await alice.put(`${path}/suites/${(await suite()).id}`, { approval: 'false' });
    await build({ suites: [ship] });
    assert.deepEqual(await endBuilds(1), ['make ship']);
  });

  testOnOne('builds nothing where the file is wrong, says why, and changes nothing', async () => {
    const [keep] = [await alice.createSuite(project, { name: 'keep', command: 'true' })];
    const wrong: [string | object, RegExp][] = [
      ['name = "unclosed', /\.headrace\.toml:1: cannot be read: Invalid TOML/],
      [{ problem: '.headrace.toml is a link. It must be a file.' }, /is a link/],
      [{ suites: [{ name: 'new', command: 'x' }, { name: 'other' }] }, /suites\[other\]\[command\] is missing/],
      [{ suites: [{ name: 'new', command: 'x', commnd: 'y' }] }, /suites\[new\]\[commnd\] is not known/],
      [
        { suites: [{ name: 'new', command: 'x', dependencies: ['none'] }] },
        /dependencies\] is refused: You have no dependency "none"/,
      ],
      [{ suites: [{ name: 'new', command: 'x', needs: 'new' }] }, /suites\[new\]\[needs\] must be a list of texts/],
      [{ suites: [{ name: 'new', command: 'x', files_from: 3 }] }, /\[files_from\] /],
      [{ suites: [{ name: 'new', command: 'x' }], schedules: [{ cron: 'never' }] }, /schedules\[0\]\[cron\]/],
      [{ suites: 'all' }, /suites must be a list of tables/],
      [
        { suites: Array.from({ length: 201 }, (_, at) => ({ name: `s${at}`, command: 'x' })) },
        /suites has 201 entries, and at most 200 are allowed/,
      ],
      [`a = ${'['.repeat(100_000)}`, /cannot be read/],
      [`${'a.'.repeat(50_000)}b = 1`, /nested too deeply/],
      [`[${'a.'.repeat(100_000)}b]\n`, /nested too deeply/],
    ];
    for (const [file, why] of wrong) {
      const began = performance.now();
      const { request, log } = await build(file);
      assert.equal(request.build_state, 'errored', log);
      assert.match(log, why);
      assert.match(log, /\nNothing was changed, and nothing is built\.\n$/);
      assert.ok(performance.now() - began < 20_000);
      assert.deepEqual(
        (await suites()).map(({ id }) => id),
        [keep.id],
        'nothing is left of it',
      );
      await runner.assertIdle();
    }
    const told = await service.store.db.read
      .selectFrom('audit_entries')
      .select('id')
      .where('project_id', '=', project.id)
      .where('via', '=', 'repository')
      .execute();
    assert.deepEqual(told, []);
    // The next good one is built.
    await build({ suites: [{ name: 'keep', command: 'make' }] });
    assert.deepEqual(await endBuilds(1), ['make']);
  });

  testOnOne('cannot change what only the owner may, nor name or take values [promise: config-file]', async () => {
    const suite = await alice.createSuite(project, { name: 'unit', command: 'true' });
    const variables = `${path}/suites/${suite.id}/environment_variables`;
    await alice.post(variables, { name: 'TOKEN', content: 'the-secret' });
    const ofProject = `${path}/environment_variables`;
    await alice.post(ofProject, { name: 'WIDE', content: 'the-secret' });
    await alice.post(`${path}/hooks`, { provider: 'github' });
    const unit = { name: 'unit', command: 'make' };
    const facts = async () =>
      inspect([
        (await alice.get(path)).record,
        (await alice.get(variables)).list,
        (await alice.get(ofProject)).list,
      ]).replace(/build_state: '\w+'/, '');
    const before = await facts();
    const refused: [object, RegExp][] = [
      [{ config_file: '' }, /config_file: a file in a repository cannot change this/],
      [{ config_file: 'other.toml' }, /config_file: /],
      [{ repository_url: 'git@example.org:other/code.git' }, /repository_url: /],
      [{ name: 'Mine', public_badge: true, fork_builds: 'approval' }, /name: [^]*fork_builds: [^]*public_badge: /],
      [{ collaborators: ['mallory@example.org'] }, /collaborators is not known/],
      [{ owner: 'mallory' }, /owner is not known/],
      [{ status_targets: [{ provider: 'github', token: 'x' }] }, /status_targets is not known/],
      [{ hooks: [{ provider: 'generic' }] }, /hook generic: a file in a repository cannot change this/],
      [{ hooks: [{ provider: 'github' }, { provider: 'gitlab' }] }, /hook gitlab: .* cannot create this/],
      [
        { notifications: [{ notifiable_type: 'build', name: 'webhook', url: 'https://mallory.example.org/' }] },
        /notification .*: a file in a repository cannot create this/,
      ],
      [
        { variables: [{ name: 'WIDE', from_env: 'PATH' }] },
        /variables\[WIDE\]\[from_env\] has no meaning in a repository: write keep/,
      ],
      [{ variables: [{ name: 'WIDE', content: 'mine' }] }, /variables\[WIDE\]: a file must not contain secrets/],
      [{ variables: [{ name: 'WIDE', content: 'mine', secret: false }] }, /variable WIDE: .* cannot change this/],
      [{ variables: [{ name: 'NEW', keep: true }] }, /variables\[NEW\] has no value on the server yet/],
      [
        { suites: [{ ...unit, variables: [{ name: 'TOKEN', from_env: 'PATH' }] }] },
        /TOKEN\]\[from_env\] has no meaning in a repository: write keep/,
      ],
      [{ suites: [{ ...unit, variables: [{ name: 'TOKEN', content: 'mine' }] }] }, /TOKEN\]: .*Write keep = true/],
      [
        { suites: [{ ...unit, variables: [{ name: 'TOKEN', keep: true, secret: false }] }] },
        /variable TOKEN of suite unit/,
      ],
      [
        { suites: [{ ...unit, variables: [{ name: 'TOKEN', content: 'mine', secret: false }] }] },
        /variable TOKEN of suite unit: a file in a repository cannot change this/,
      ],
      [
        { suites: [{ ...unit, variables: [{ name: 'NEW', keep: true }] }] },
        /suites\[unit\]\[variables\]\[NEW\] has no value on the server yet\. Set it in the settings first/,
      ],
    ];
    for (const [file, why] of refused) {
      const { request, log } = await build(file);
      assert.equal(request.build_state, 'errored', log);
      assert.match(log, why);
      assert.doesNotMatch(log, /the-secret/);
    }
    assert.equal(await facts(), before);
    assert.equal((await alice.get(`${path}/hooks`)).list.length, 1);
    // An export says all that, and is as good a file as any.
    const exported = JSON.parse(String((await alice.get(`${path}/config`)).record.document)) as object;
    assert.match((await build(exported)).log, /nothing to change/);
    await endBuilds(1);
    assert.equal((await alice.get(variables)).list[0]?.content, 'the-secret');
    // What is no secret may stand in it.
    const mode = (content: string) => [
      { name: 'TOKEN', keep: true },
      { name: 'MODE', content, secret: false },
    ];
    for (const content of ['fast', 'slow']) {
      assert.match((await build({ suites: [{ ...unit, variables: mode(content) }] })).log, /: [12] changes?\./);
      await endBuilds(1);
      const values = (await alice.get(variables)).list.map((one) => [one.name, one.content, one.secret]);
      assert.deepEqual(values, [
        ['TOKEN', 'the-secret', true],
        ['MODE', content, false],
      ]);
    }
    const again = JSON.parse(String((await alice.get(`${path}/config`)).record.document)) as object;
    assert.match((await build(again)).log, /nothing to change/);
    await endBuilds(1);
  });

  test('is not applied from a fork, a pull request, another branch or an older commit [promise: config-file]', async () => {
    await build({ suites: [{ name: 'unit', command: 'make' }] });
    await endBuilds(1);
    const evil = { text: stringify({ suites: [{ name: 'evil', command: 'evil' }] }) };
    const elsewhere: [Partial<CommitReport>, string][] = [
      [{ defaultHead: 'kept', branches: ['feature'], branch: 'feature', ref: 'refs/heads/feature' }, 'evil'],
      [{ defaultHead: 'kept' }, 'evil'],
      [{ defaultHead: 'none', branches: [], branch: null, ref: 'refs/pull/7/head' }, 'make'],
    ];
    for (const [commit, builds] of elsewhere) {
      await ask();
      const task = await runner.take('fetch_commit');
      await task.finish(found(evil, commit));
      assert.deepEqual(await endBuilds(1), [builds], 'it is built by its own file, unless it is a fork’s');
    }
    const hook = (await alice.post(`${path}/hooks`, { provider: 'generic' })).record;
    const set = { event: 'pull_request', pull_request: 7n, from_fork: 1 };
    for (const columns of [set, { event: 'push', pull_request: null, from_fork: 1 }]) {
      const { record } = await ask();
      await service.store.db.transaction(async (trx) => {
        await trx.updateTable('build_requests').set(columns).where('id', '=', record.id).execute();
      });
      const task = await runner.take('fetch_commit');
      assert.equal(task.order.work.configFile, undefined, 'the runner is not even told');
      await task.finish(found(evil, { defaultHead: 'this' }));
      assert.deepEqual(await endBuilds(1), ['make']);
    }
    assert.deepEqual(
      (await suites()).map(({ name }) => name),
      ['unit'],
    );
    await alice.delete(`${path}/hooks/${hook.id}`);
  });

  test('of two commits that were fetched at the same time, the older does not win', async () => {
    await ask();
    const first = await runner.take('fetch_commit');
    await ask();
    const second = await runner.take('fetch_commit');
    const file = (command: string) => ({ text: stringify({ suites: [{ name: 'unit', command }] }) });
    const newer = found(file('newer'));
    assert.deepEqual(await second.finish(newer), { taken: true });
    assert.deepEqual(await first.finish(found(file('older'))), { taken: true });
    assert.equal((await suites())[0]?.command, 'newer');
    defaultHead = newer.commit.sha;
    const tasks: string[] = [];
    for (let at = 0; at < 2; at += 1) {
      const order = await runner.dispatch.next(
        runner.self,
        { claim: `claim-${at}-${'x'.repeat(20)}` },
        new AbortController().signal,
      );
      assert.ok(order);
      tasks.push(order.work.kind);
      if (order.work.kind === 'fetch_commit') assert.equal(order.work.defaultHead, defaultHead, 'it is compared anew');
    }
    assert.deepEqual(tasks.toSorted(), ['fetch_commit', 'run_suite']);
  });

  testOnOne('is applied only once the log is whole, and not if the request was cancelled', async () => {
    const file = { text: stringify({ suites: [{ name: 'unit', command: 'make' }] }) };
    await ask();
    const task = await runner.take('fetch_commit');
    assert.deepEqual(await task.finishAt(7, found(file)), { expected: 0 });
    assert.deepEqual(await suites(), []);
    assert.deepEqual(await task.finish(found(file)), { taken: true });
    assert.deepEqual(await endBuilds(1), ['make']);

    const { record } = await ask();
    const cancelled = await runner.take('fetch_commit');
    await alice.post(`${path}/build_requests/${record.id}/cancel`);
    const other = { text: stringify({ suites: [{ name: 'unit', command: 'other' }] }) };
    assert.deepEqual(await cancelled.finish(found(other)), { taken: true });
    assert.equal((await alice.get(`${path}/build_requests/${record.id}`)).record.build_state, 'cancelled');
    assert.equal((await suites())[0]?.command, 'make');
    await runner.assertIdle();
  });

  testOnOne('is read again where the project got another while the commit was fetched', async () => {
    for (const [first, then] of [
      ['', '.headrace.toml'],
      ['.headrace.toml', 'ci.yaml'],
    ] as const) {
      assert.equal((await alice.put(path, { config_file: first })).status, 200);
      await ask();
      const task = await runner.take('fetch_commit');
      assert.equal((await alice.put(path, { config_file: then })).status, 200);
      await task.finish(found(first === '' ? undefined : { text: 'suites = []' }));
      const again = await runner.take('fetch_commit');
      assert.equal(again.order.work.configFile, then);
      await again.finish({ kind: 'cancelled' });
    }
  });

  testOnOne('takes only a path of a document', async () => {
    for (const wrong of [
      '../x.toml',
      '/etc/x.toml',
      'a/../x.toml',
      './x.toml',
      '.git/x.toml',
      '-x.toml',
      'x',
      'a//b.toml',
      'a\nb.toml',
    ])
      assert.equal((await alice.put(path, { config_file: wrong })).status, 403, wrong);
    for (const right of ['ci/headrace.toml', 'ünï code.toml', '.headrace.json', 'ci.yaml', '.headrace.yml', '']) {
      const { status, record: changed } = await alice.put(path, { config_file: right });
      assert.deepEqual([status, changed.config_file], [200, right]);
    }
    await ask();
    const task = await runner.take('fetch_commit');
    assert.equal(task.order.work.configFile, undefined);
    await task.finish(found({ text: stringify({ suites: [{ name: 'evil', command: 'x' }] }) }));
    assert.deepEqual(await suites(), [], 'it is off');
  });
});

describeWithRunner('the file of a branch', (service, runner) => {
  test('is what its commit is built by, and changes nothing else [promise: branch-file]', async () => {
    const alice = await service.user();
    const project = await alice.createProject({ config_file: '.headrace.yml' });
    const path = `/projects/${project.id}`;
    const unit = await alice.createSuite(project, { name: 'unit', command: 'old', 'tags[]': 'gpu' });
    await alice.createSuite(project, { name: 'only-here', command: 'other' });
    await alice.createVariable(project, unit, { name: 'TOKEN', content: 'of the suite' });
    await alice.post(`${path}/environment_variables`, { name: 'SHARED', content: 'of the project' });
    const onBranch = {
      branches: ['topic'],
      branch: 'topic',
      ref: 'refs/heads/topic',
      defaultHead: 'none' as const,
      sha: shaOf(9001),
    };
    const build = async (text: string, commit: Partial<CommitReport> = {}) => {
      const { record } = await alice.post(`${path}/build_requests`, { commit_ref: 'topic' });
      const task = await runner.take('fetch_commit');
      assert.equal(task.order.work.configFile, '.headrace.yml');
      const found = { kind: 'fetched' as const, commit: { ...aCommit, ...onBranch, ...commit } };
      await task.finish({ ...found, config: { text, path: task.order.work.configFile ?? '', before: null } });
      return record;
    };
    const before = inspect([(await alice.get(path)).record, (await alice.get(`${path}/suites`)).list]);

    const file =
      'suites:\n  - {name: unit, command: new, cache: [deps]}\n  - {name: extra, command: more, retries: 1}\n';
    const request = await build(file);
    const seen = new Map<string, Record<string, string>>();
    for (let at = 0; at < 2; at += 1) {
      const task = await runner.take('run_suite');
      const { environment, steps, secrets } = task.order.work;
      seen.set(String(steps[0]?.command), environment);
      assert.equal(secrets.length, environment.HEADRACE_SUITE === 'unit' ? 2 : 0);
      await task.exit(environment.HEADRACE_SUITE === 'unit' ? 0 : 1);
    }
    const again = await runner.take('run_suite');
    assert.equal(again.order.work.environment.HEADRACE_SUITE, 'extra', 'it is retried as its file says');
    await again.exit(0);
    await runner.assertIdle();
    assert.equal(seen.get('new')?.TOKEN, 'of the suite');
    assert.equal(seen.get('new')?.SHARED, 'of the project');
    assert.equal(seen.get('more')?.TOKEN, undefined);
    assert.equal(seen.get('more')?.SHARED, undefined, 'a suite that only the branch has gets no secrets');
    const builds = (await alice.get(`${path}/builds`)).list;
    assert.deepEqual(builds.map((one) => [one.suite_name, one.suite_id, one.suite_id_str]).toReversed(), [
      ['unit', unit.id, unit.id_str],
      ['extra', null, ''],
      ['extra', null, ''],
    ]);
    const shown = (await alice.get(`${path}/build_requests/${request.id}`)).record;
    assert.deepEqual([shown.build_state, shown.failure_reason, shown.config_file], ['passed', '', '.headrace.yml']);
    assert.equal(
      inspect([(await alice.get(path)).record, (await alice.get(`${path}/suites`)).list]).replaceAll(
        /build_state: '\w+'/g,
        '',
      ),
      before.replaceAll(/build_state: '\w+'/g, ''),
    );

    // Known by its SHA, restarted and rerun, it is still built by its file.
    const extra = builds.find((one) => one.suite_name === 'extra');
    assert.equal((await alice.post(`${path}/builds/${extra?.id}/restart`)).status, 201);
    const restarted = await runner.take('run_suite');
    assert.equal(restarted.order.work.steps[0]?.command, 'more');
    await restarted.exit(0);
    await alice.requestBuild(project, onBranch.sha);
    const commands = new Set<string>();
    for (let at = 0; at < 2; at += 1) {
      const task = await runner.take('run_suite');
      commands.add(String(task.order.work.steps[0]?.command));
      await task.exit(0);
    }
    assert.deepEqual(commands, new Set(['new', 'more']));

    // A fork's commit is built by the suites of the project.
    await build(file, { branches: [], branch: null, ref: 'refs/pull/3/head', sha: shaOf(9002) });
    const names = new Set<unknown>();
    for (let at = 0; at < 1; at += 1) {
      const task = await runner.take('run_suite');
      names.add(task.order.work.steps[0]?.command);
      assert.deepEqual(task.order.work.secrets, []);
      await task.exit(0);
    }
    assert.deepEqual(names, new Set(['other']), 'the other one has tags that this runner has not');

    const mallory = await service.user();
    await mallory.createDependency({ name: 'theirs' });
    const wrong: [string, RegExp][] = [
      [
        'suites:\n  - {name: x, command: y, dependencies: [theirs]}\n',
        /\.headrace\.yml:2: suites\[x\]\[dependencies\] names theirs/,
      ],
      [
        'suites:\n  - {name: x, command: y, tags: [secret-runner]}\n',
        /\.headrace\.yml:2: suites\[x\]\[tags\] names secret-runner/,
      ],
      [
        'suites:\n  - name: x\n    command: y\n    timeout: 2\n',
        /\.headrace\.yml:4: suites\[x\]\[timeout\] is more than/,
      ],
      [`a: ${'['.repeat(20_000)}`, /cannot be read/],
    ];
    for (const [text, why] of wrong) {
      const refused = await build(text);
      const { build_state, failure_reason } = (await alice.get(`${path}/build_requests/${refused.id}`)).record;
      assert.deepEqual([build_state, failure_reason], ['errored', 'configuration_invalid'], text.slice(0, 90));
      assert.match((await alice.get(`${path}/build_requests/${refused.id}/log.txt`)).text, why);
    }
    await runner.assertIdle();

    // Where the owner trusts the branches, a new suite has the project's variables.
    assert.equal((await alice.put(path, { branch_secrets: 'true' })).record.branch_secrets, true);
    await build('suites: [{name: late, command: z}]\n', { sha: shaOf(9003) });
    const trusted = await runner.take('run_suite');
    assert.equal(trusted.order.work.environment.SHARED, 'of the project');
    assert.equal(trusted.order.work.environment.TOKEN, undefined);
    await trusted.exit(0);

    // Suites that waited for another need the tags that their file says, whatever the project's suite has by then.
    const tagged = 'needs: [first], tags: [gpu]';
    const inTurn = [
      '{name: first, command: a}',
      `{name: then, command: b, ${tagged}}`,
      `{name: unit, command: c, ${tagged}}`,
    ];
    await build(`suites: [${inTurn.join(', ')}]\n`, { sha: shaOf(9004) });
    await (await runner.take('run_suite')).exit(0);
    await runner.assertIdle();
    assert.deepEqual((await alice.put(`${path}/suites/${unit.id}`, { 'tags[]': '' })).record.tags, []);
    const ofFork = await runner.take('run_suite');
    assert.equal(ofFork.order.work.steps[0]?.command, 'old', 'what the project’s suite runs follows it');
    await ofFork.exit(0);
    await runner.assertIdle();
  });

  test('asks for a person where the project does, and begins with files by its own names [promise: branch-file]', async () => {
    const alice = await service.user();
    const project = await alice.createProject({ config_file: '.headrace.yml' });
    const path = `/projects/${project.id}`;
    await alice.createSuite(project, { name: 'gate', approval: 'true' });
    const ship = await alice.createSuite(project, { name: 'ship', approval: 'true', manual: 'true' });
    await alice.createVariable(project, ship, { name: 'KEY', content: 'open sesame' });
    const commit = { ...aCommit, branches: ['topic'], branch: 'topic', ref: 'refs/heads/topic', sha: shaOf(9101) };
    const build = async (suites: string[], fields: Record<string, string> = {}, sha = commit.sha): Promise<Record_> => {
      const { record } = await alice.post(`${path}/build_requests`, { commit_ref: 'topic', ...fields });
      const task = await runner.take('fetch_commit');
      const text = `suites:\n${suites.map((suite) => `  - ${suite}\n`).join('')}`;
      const found = { kind: 'fetched' as const, commit: { ...commit, sha, defaultHead: 'none' as const } };
      assert.deepEqual(
        await task.finish({ ...found, config: { text, path: task.order.work.configFile ?? '', before: null } }),
        { taken: true },
      );
      return (await alice.get(`${path}/build_requests/${record.id}`)).record;
    };
    const statesOf = async ({ id }: Record_) =>
      (await alice.get(`${path}/build_requests/${id}/builds`)).list.map(
        ({ suite_name: name, build_state: state }) => `${String(name)} ${String(state)}`,
      );
    const file = [
      '{name: compile, command: make}',
      '{name: unit, command: make test, needs: [compile], files_from: compile}',
      '{name: gate, command: curl, approval: false}',
      '{name: ship, command: curl, approval: false, manual: false}',
      '{name: asks, command: make, approval: true}',
    ];
    const request = await build(file);
    const compile = await runner.take('run_suite');
    assert.equal(compile.order.work.keep?.forSuites, 'passed');
    await runner.assertIdle();
    assert.deepEqual((await statesOf(request)).toSorted(), [
      'asks waiting_for_approval',
      'compile running',
      'gate waiting_for_approval',
      'unit enqueued',
    ]);
    const kept = { location: 'here', name: 'files', key: 'a'.repeat(64) };
    await compile.exit(0, { kept });
    const unit = await runner.take('run_suite', { location: 'here' });
    const { HEADRACE_BUILD_ID: id } = compile.order.work.environment;
    assert.deepEqual(unit.order.work.files, { suite: 'compile', build: id, kept: { name: kept.name, key: kept.key } });
    await unit.exit(0);
    // The build says whose files it began with.
    const builds = (await alice.get(`${path}/builds`)).list;
    const idOf = (name: string) => builds.find((one) => one.suite_name === name)?.id;
    const details = (await alice.get(`${path}/builds/${idOf('unit')}/details`)).record;
    assert.deepEqual(
      (details.files_of as Record_[]).map(({ id, suite_name: name }) => [id, name]),
      [[idOf('compile'), 'compile']],
    );
    assert.equal((await alice.post(`${path}/build_requests/${request.id}/cancel`)).status, 200);

    // Named, the manual suite is there, and still asks: for its restarts as well.
    const named = await build(file, { 'suites[]': ship.id_str });
    await runner.assertIdle();
    assert.deepEqual(await statesOf(named), ['ship waiting_for_approval']);
    const [first] = (await alice.get(`${path}/build_requests/${named.id}/builds`)).list;
    assert.equal((await alice.post(`${path}/builds/${first?.id}/approve`)).status, 200);
    await (await runner.take('run_suite')).exit(1);
    assert.equal((await alice.post(`${path}/builds/${first?.id}/restart`)).status, 201);
    await runner.assertIdle();
    assert.deepEqual(await statesOf(named), ['ship waiting_for_approval', 'ship failed']);

    for (const [files, nth] of [
      ['nobody', 9102],
      ['asks', 9103],
    ] as const) {
      const wrong = await build(
        [`{name: unit, command: x, files_from: ${files}}`, '{name: asks, command: x}'],
        {},
        shaOf(nth),
      );
      assert.equal(wrong.failure_reason, 'configuration_invalid');
      const log = (await alice.get(`${path}/build_requests/${wrong.id}/log.txt`)).text;
      assert.match(log, /^\.headrace\.yml:2: suites\[unit\]\[files_from\] /m);
    }
  });
});
