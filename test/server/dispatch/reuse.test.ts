import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { forgetOldArtifacts } from '../../../src/server/outputs/artifacts.ts';
import type { CommitReport, RunnerInput } from '../../../src/shared/protocol/index.ts';
import type { Record_ } from '../../support/client.ts';
import { addArtifact } from '../../support/rows.ts';
import { describeWithRunner, type ScriptedRunner } from '../../support/runner.ts';
import { Tab } from '../../support/tab.ts';
import { fromFork, trigger } from '../../support/triggered.ts';
import type { User } from '../../support/user.ts';

const treeOf = (digit: string): string => digit.repeat(40);
const machine: RunnerInput[] = [
  { kind: 'architecture', name: 'processor', digest: 'a'.repeat(64) },
  { kind: 'packages', name: 'installed packages', digest: 'c'.repeat(64) },
];
const otherMachine = machine.with(1, { kind: 'packages', name: 'installed packages', digest: 'd'.repeat(64) });

let isSampled = false;

describeWithRunner(
  'a suite under reuse',
  (service, runner) => {
    let alice: User;
    let project: Record_;
    let suite: Record_;
    let path: string;
    let commits = 0;
    before(async () => {
      alice = await service.user();
    });
    const fresh = async (fields: Record<string, string> = {}): Promise<void> => {
      project = await alice.createProject();
      path = `/projects/${project.id}`;
      suite = await alice.createSuite(project, { name: 'unit', command: 'make test', reuse: 'on', ...fields });
    };
    /** A commit of its own, with the same files as the others. */
    const begin = async (commit: Partial<CommitReport> = {}, fields: Record<string, string> = {}): Promise<string> => {
      commits += 1;
      const asked = await alice.post(`${path}/build_requests`, { commit_ref: 'main', ...fields });
      assert.equal(asked.status, 201, asked.text);
      await (await runner.take('fetch_commit')).fetched({ sha: shaOf(commits), tree: treeOf('1'), ...commit });
      return asked.record.id_str;
    };
    const shaOf = (number: number): string => number.toString(16).padStart(40, 'f');
    const answer = async (inputs = machine, by: ScriptedRunner = runner): Promise<void> => {
      const check = await by.take('check_inputs');
      assert.deepEqual(await check.finishAt(0, { kind: 'inputs' }, { inputs }), { taken: true });
    };
    const run = async (inputs = machine, status = 0): Promise<void> => {
      await (await runner.take('run_suite')).exit(status, { inputs });
    };
    const buildsOf = async (request: string): Promise<Record_[]> =>
      (await alice.get(`${path}/build_requests/${request}/builds`)).list;
    const buildOf = async (request: string): Promise<Record_> => {
      const [build] = await buildsOf(request);
      return build ?? assert.fail('the request has no build');
    };
    /** Runs: nothing stood for it. */
    const ran = async (commit: Partial<CommitReport> = {}, fields: Record<string, string> = {}): Promise<Record_> => {
      const request = await begin(commit, fields);
      await run();
      const build = await buildOf(request);
      assert.equal(build.reused_from_id, null);
      return build;
    };
    const reused = async (commit: Partial<CommitReport> = {}): Promise<Record_> => {
      const request = await begin(commit);
      await answer();
      const build = await buildOf(request);
      assert.equal(build.build_state, 'passed');
      return build;
    };
    const side: Partial<CommitReport> = {
      branches: ['side'],
      branch: 'side',
      ref: 'refs/heads/side',
      defaultHead: 'kept',
    };

    test('is passed at once, with the results of the build that ran', async () => {
      await fresh({ 'artifacts[]': 'out/*', 'reports[]': '*.xml' });
      const notified = await alice.post(`${path}/notifications`, {
        notifiable_type: 'build',
        name: 'webhook',
        'options[url]': 'https://example.org/hook',
      });
      assert.equal(notified.status, 201, notified.text);
      const first = await ran();
      await addArtifact(service.store, { id: BigInt(first.id_str) }, 'out/a', 'content');
      const request = await begin(side);
      await answer();
      const build = await buildOf(request);
      assert.equal(build.build_state, 'passed');
      assert.equal(build.reused_from_id_str, first.id_str);
      assert.deepEqual(
        [build.started_at, build.exit_status, build.cpu_seconds, build.memory_peak, build.checks_id],
        [null, null, null, null, null],
      );
      assert.equal((await alice.get(`${path}/build_requests/${request}`)).record.build_state, 'passed');
      assert.equal((await alice.get(`${path}/commits/${String(build.commit_id_str)}`)).record.build_state, 'passed');
      const of = `${path}/builds/${build.id_str}`;
      const log = await alice.get(`${of}/log`);
      assert.match(log.text, new RegExp(`Not run: .*build ${first.id_str}`));
      const artifacts = (await alice.get(`${of}/artifacts`)).list;
      assert.deepEqual(
        artifacts.map(({ path: at }) => at),
        ['out/a'],
      );
      assert.equal((await alice.get(`${of}/artifacts/${artifacts[0]?.id_str}`)).text, 'content');
      assert.deepEqual((await alice.get(`${of}/inputs?compare=${first.id_str}`)).record.differences, []);
      const { rows } = await service.store.db.read
        .selectFrom('webhook_deliveries')
        .select('payload')
        .where('event_type', 'like', 'build.%')
        .where('subject_id', '=', BigInt(build.id_str))
        .orderBy('position')
        .execute()
        .then((all) => ({ rows: all.map(({ payload }) => JSON.parse(payload) as { type: string; build: Record_ }) }));
      assert.deepEqual(
        rows.map(({ type }) => type),
        ['build.enqueued', 'build.passed'],
      );
      assert.equal(rows[1]?.build.reused_from_id_str, first.id_str);
      const tab = new Tab(service);
      await tab.signIn(alice.credentials);
      const page = (await tab.get(`/ui${of}`)).text.replaceAll(/\s+/g, ' ');
      assert.match(
        page,
        new RegExp(`Not run: all its inputs equal those of <a href="/ui${path}/builds/${first.id_str}"`),
      );
      // The days count from the build that ran, which is named again.
      assert.equal((await reused()).reused_from_id_str, first.id_str);
    });

    test('runs if a runner reports something else, or none is like the one that ran it', async () => {
      await fresh();
      await ran();
      const request = await begin();
      await answer(otherMachine);
      await run(otherMachine);
      assert.equal((await buildOf(request)).reused_from_id, null);
      // Now either machine has a build that vouches.
      const next = await begin();
      await answer(otherMachine);
      assert.equal((await buildOf(next)).reused_from_id_str, (await buildOf(request)).id_str);
    });

    test('asks each connected runner that could take the build, until one proves it', async () => {
      await fresh();
      await ran();
      const beside = runner.beside('beside');
      for (const { self } of [runner, beside])
        await runner.dispatch.came(self, { version: '', trouble: '', slots: 1, tags: '' });
      const request = await begin();
      await answer(otherMachine);
      await runner.assertIdle();
      await answer(machine, beside);
      assert.notEqual((await buildOf(request)).reused_from_id, null);
      const second = await begin();
      await answer(otherMachine, beside);
      await answer(otherMachine);
      await run(otherMachine);
      assert.equal((await buildOf(second)).reused_from_id, null);
      await service.store.db.transaction((trx) => trx.deleteFrom('runner_heartbeats').execute());
    });

    test('runs if the runner is lost, or cannot tell', async () => {
      await fresh();
      await ran();
      const lost = await begin();
      await runner.take('check_inputs');
      await runner.dispatch.holderGone(runner.self.holder);
      await run();
      assert.deepEqual(
        (await buildsOf(lost)).map(({ reused_from_id: id }) => id),
        [null],
      );
      await begin();
      await (await runner.take('check_inputs')).finish({ kind: 'unrunnable', reason: 'image_not_found' });
      await run();
    });

    test('is cancelled while it is compared', async () => {
      await fresh();
      await ran();
      const request = await begin();
      const check = await runner.take('check_inputs');
      await alice.post(`${path}/build_requests/${request}/cancel`);
      await check.finishAt(0, { kind: 'inputs' }, { inputs: machine });
      const build = await buildOf(request);
      assert.deepEqual([build.build_state, build.reused_from_id], ['cancelled', null]);
      await runner.assertIdle();
    });

    test('always runs where someone asks for that: reuse=false, restart, rerun', async () => {
      await fresh();
      const first = await ran();
      await ran({}, { reuse: 'false' });
      await alice.post(`${path}/builds/${first.id_str}/restart`);
      await run();
      const request = await begin();
      await answer();
      await alice.post(`${path}/build_requests/${request}/rerun`);
      await run();
      assert.deepEqual(
        (await buildsOf(request))
          .map(({ reused_from_id: id }) => String(id === null))
          .toSorted((a, b) => (a < b ? -1 : 1)),
        ['false', 'true'],
      );
    });

    test('is vouched for only by a build that passed whole, at its first try, under reuse', async () => {
      await fresh({ reuse: 'off', retries: '1' });
      await ran();
      await alice.put(`${path}/suites/${suite.id}`, { reuse: 'on' });
      const retried = await begin();
      await run(machine, 1);
      await run(machine, 0);
      assert.deepEqual(
        (await buildsOf(retried)).map(({ build_state: state }) => String(state)).toSorted((a, b) => (a < b ? -1 : 1)),
        ['failed', 'passed'],
      );
      await alice.put(`${path}/suites/${suite.id}`, { api_token: 'read' });
      await ran();
      await ran();
      await alice.put(`${path}/suites/${suite.id}`, { api_token: 'none' });
      const voucher = await ran();
      assert.equal((await reused()).reused_from_id_str, voucher.id_str);
    });

    test('runs after its days', async () => {
      await fresh({ reuse_days: '1' });
      const { id_str: id } = await ran();
      await service.store.db.transaction((trx) =>
        trx
          .updateTable('builds')
          .set({ finished_at: BigInt(Date.now() - 25 * 60 * 60 * 1000) })
          .where('id', '=', BigInt(id))
          .execute(),
      );
      await ran();
    });

    test('keeps artifacts as long as a build has them, and runs when they are gone', async () => {
      await fresh({ 'artifacts[]': 'out/*' });
      const first = await ran();
      const { id } = await addArtifact(service.store, { id: BigInt(first.id_str) }, 'out/a');
      assert.equal((await reused()).reused_from_id_str, first.id_str);
      const day = 24 * 60 * 60 * 1000;
      const left = async (): Promise<bigint[]> =>
        (await service.store.db.read.selectFrom('artifacts').select('id').where('id', '=', id).execute()).map(
          (one) => one.id,
        );
      await forgetOldArtifacts(service.store.db, 1, Date.now() + day / 2);
      assert.deepEqual(await left(), [id], 'it is not old');
      await forgetOldArtifacts(service.store.db, 1, Date.now() + 2 * day);
      assert.deepEqual(await left(), []);
      await ran();
    });

    test('does not let a fork vouch for others [promise: reuse-forks]', async () => {
      await fresh();
      await alice.put(path, { fork_builds: 'always' });
      const pull = async (number: number): Promise<string> => {
        const about = { ...fromFork, pullRequest: BigInt(number), group: `pull_request:${number}` };
        const sha = shaOf((commits += 1));
        const { request } = await trigger(service.store, project, sha, about);
        const head = {
          branches: [] as string[],
          branch: null,
          ref: `refs/pull/${number}/head`,
          defaultHead: 'kept',
        } satisfies Partial<CommitReport>;
        await (await runner.take('fetch_commit')).fetched({ sha, tree: treeOf('1'), ...head });
        return String(request?.id);
      };
      await pull(1);
      await run();
      const again = await pull(1);
      await answer();
      assert.notEqual((await buildOf(again)).reused_from_id, null, 'it serves later builds of its pull request');
      await pull(2);
      await run();
      const own = await ran();
      // The repository's own build serves everyone.
      const other = await pull(3);
      await answer();
      assert.equal((await buildOf(other)).reused_from_id_str, own.id_str);
    });

    test('sees no request that is not among its inputs', async () => {
      await fresh();
      await begin();
      const sealed = await runner.take('run_suite');
      const absent = ['BUILD_ID', 'ATTEMPT', 'COMMIT', 'REF', 'BRANCH', 'EVENT', 'PULL_REQUEST', 'TARGET_BRANCH'];
      const names = Object.keys(sealed.order.work.environment);
      for (const name of absent) assert.ok(!names.includes(`HEADRACE_${name}`), name);
      for (const name of ['CI', 'HEADRACE', 'HEADRACE_SUITE', 'HEADRACE_VARIANT', 'HEADRACE_PROJECT_ID'])
        assert.ok(names.includes(name), name);
      assert.equal(sealed.order.work.isSealed, true);
      await sealed.exit(0, { inputs: machine });
      await alice.put(`${path}/suites/${suite.id}`, { uses_request: 'true' });
      const request = await begin({ sha: shaOf(0xabc) });
      const told = await runner.take('run_suite');
      assert.equal(told.order.work.environment.HEADRACE_COMMIT, shaOf(0xabc));
      await told.exit(0, { inputs: machine });
      const build = await buildOf(request);
      const { inputs } = (await alice.get(`${path}/builds/${build.id_str}/inputs`)).record;
      const kinds = (inputs as Record_[]).filter(({ kind }) => kind === 'request').map(({ name }) => name);
      assert.ok(kinds.includes('HEADRACE_COMMIT') && !kinds.includes('HEADRACE_BUILD_ID'));
      await ran(); // another commit
    });

    test('counts only the files that match, if it names some, and the names of variables that do not matter', async () => {
      await fresh({ 'inputs[]': 'src', 'ignore_variables[]': 'NOISE' });
      const files = (digit: string): RunnerInput[] => [
        ...machine,
        { kind: 'tree', name: 'matching files', digest: digit.repeat(64) },
      ];
      const task = await begin().then(() => runner.take('run_suite'));
      assert.deepEqual(task.order.work.inputs, ['src']);
      await task.exit(0, { inputs: files('1') });
      const same = await begin({ tree: treeOf('2') });
      await answer(files('1'));
      assert.notEqual((await buildOf(same)).reused_from_id, null);
      await begin({ tree: treeOf('2') });
      await answer(files('2'));
      await run(files('2'));
      // A runner that tells nothing about them proves nothing.
      await begin();
      await answer(machine);
      await run(machine);
      await begin();
      await answer(machine);
      await run(files('1'));
      await begin({}, { 'variables[NOISE]': 'one' });
      await run(files('1'));
      const ignored = await begin({}, { 'variables[NOISE]': 'two' });
      await answer(files('1'));
      assert.notEqual((await buildOf(ignored)).reused_from_id, null);
      await begin({}, { 'variables[OTHER]': 'two' });
      await run(files('1'));
    });

    test('is run all the same by chance, without a cache, and is not reused after that failed', async () => {
      await fresh({ 'cache[]': 'deps' });
      await ran();
      isSampled = true;
      const request = await begin();
      await answer();
      isSampled = false;
      // Nothing else waits, but a job that does comes first.
      const other = await begin({}, { reuse: 'false' });
      await run();
      const check = await runner.take('run_suite');
      assert.equal(check.order.work.cache, undefined);
      await check.exit(1, { inputs: machine });
      assert.equal((await buildsOf(request)).length, 1);
      assert.equal((await buildsOf(other)).length, 1);
      assert.equal((await buildOf(request)).build_state, 'passed');
      assert.equal((await alice.get(`${path}/build_requests/${request}`)).record.build_state, 'passed');
      const all = (await alice.get(`${path}/builds`)).list;
      const failed = all.find(({ checks_id: id }) => id !== null) ?? assert.fail('no build checks another');
      assert.equal(failed.checks_id_str, (await buildOf(request)).id_str);
      assert.equal(failed.build_state, 'failed');
      assert.equal((await alice.get(`${path}/commits/${String(failed.commit_id_str)}`)).record.build_state, 'passed');
      const told = await service.store.db.read
        .selectFrom('events')
        .select('id')
        .where('subject_id', '=', BigInt(failed.id_str))
        .execute();
      assert.deepEqual(told, []);
      assert.equal((await alice.get(`${path}/suites/${suite.id}`)).record.reuse, 'off');
      const [stopped] = (await alice.get('/dashboard')).record.reuse_stopped as Record_[];
      assert.equal(stopped?.suite_name, 'unit');
      const tab = new Tab(service);
      await tab.signIn(alice.credentials);
      assert.match((await tab.get('/ui/')).text, /is not reused any more/);
      // A document does not switch it on, a user does.
      const { record: exported } = await alice.get(`${path}/config`);
      const document = String(exported.document).replace('"name":"unit"', '"name":"unit","reuse":"on"');
      assert.match(document, /"reuse":"on"/);
      const applied = await alice.put(`${path}/config`, { document });
      assert.equal(applied.status, 200, applied.text);
      assert.equal((await alice.get(`${path}/suites/${suite.id}`)).record.reuse, 'off');
      await ran();
      await alice.put(`${path}/suites/${suite.id}`, { reuse: 'on' });
      assert.deepEqual((await alice.get('/dashboard')).record.reuse_stopped, []);
      await reused();
    });

    test('stays under reuse if a check was cancelled, or stood on something else', async () => {
      await fresh();
      await ran();
      isSampled = true;
      await reused();
      isSampled = false;
      await run(otherMachine, 1);
      assert.equal((await alice.get(`${path}/suites/${suite.id}`)).record.reuse, 'on');
    });

    test('that takes files is compared by the builds that made them, which must still have them', async () => {
      await fresh();
      const { id_str: needed } = suite;
      const taking = await alice.createSuite(project, {
        name: 'second',
        'needs[]': needed,
        files_from_id: needed,
        reuse: 'on',
      });
      const kept = { location: 'l'.repeat(32), name: 'n'.repeat(32), key: 'a'.repeat(64) };
      await runner.dispatch.came(runner.self, { version: '', trouble: '', slots: 1, tags: '' });
      await begin();
      await (await runner.take('run_suite')).exit(0, { inputs: machine, kept });
      await (await runner.take('run_suite', { location: kept.location })).exit(0, { inputs: machine });
      const request = await begin();
      await answer();
      await answer();
      const both = await buildsOf(request);
      assert.deepEqual(
        both.map(({ reused_from_id: id }) => id !== null),
        [true, true],
      );
      // The second runs with the files of the build that the first was proved by.
      await alice.put(`${path}/suites/${taking.id}`, { command: 'make more' });
      await begin();
      await answer();
      const second = await runner.take('run_suite', { location: kept.location });
      assert.equal(second.order.work.files?.kept?.name, kept.name);
      await second.exit(0, { inputs: machine });
      await service.store.db.transaction((trx) => trx.deleteFrom('kept_builds').execute());
      await begin();
      await answer(); // too late: the files are gone, so it does not vouch
      await (await runner.take('run_suite')).exit(0, { inputs: machine, kept });
      await (await runner.take('run_suite', { location: kept.location })).exit(0, { inputs: machine });
      await service.store.db.transaction((trx) => trx.deleteFrom('runner_heartbeats').execute());
    });

    test('serves only its own branch if it began with that branch’s cache', async () => {
      await fresh({ 'cache[]': 'deps' });
      const save = async (): Promise<void> => {
        const task = await runner.take('run_suite');
        const pieces = (async function* all() {
          yield Buffer.from('deps');
        })();
        const stored = await runner.dispatch.store(runner.self, task.order.claim, pieces);
        assert.ok('digest' in stored);
        const cache = {
          digest: stored.digest,
          ...(task.order.work.cache?.found && { began: task.order.work.cache.found.id }),
        };
        await task.finishAt(0, { kind: 'exited', status: 0, cache }, { inputs: machine });
      };
      await begin({ ...side, tree: treeOf('7') });
      await save(); // without a cache
      await begin({ ...side, tree: treeOf('8') });
      await save(); // with its own
      const own = await begin({ ...side, tree: treeOf('8') });
      await answer();
      assert.notEqual((await buildOf(own)).reused_from_id, null);
      await begin({ tree: treeOf('8'), defaultBranch: 'main' });
      await run();
      const all = await begin({ tree: treeOf('7') });
      await answer();
      assert.notEqual((await buildOf(all)).reused_from_id, null);
    });
  },
  { timeoutSeconds: 1000, isSampled: () => isSampled },
);
