import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { randomName } from '../../../src/shared/lib/random-name.ts';
import type { CommitReport, RunnerInput, SuiteOrder } from '../../../src/shared/protocol/index.ts';
import type { Record_ } from '../../support/client.ts';
import { compiled, compiling, compilingAgain } from '../../support/compiling.ts';
import { describeWithRunnerOnOne, type Task } from '../../support/runner.ts';
import { Tab } from '../../support/tab.ts';
import type { User } from '../../support/user.ts';

/** A build request's fields, and what its runner reports. */
interface Asked {
  inputs?: RunnerInput[];
  variables?: Record<string, string>;
}
type Input = { kind: string; name: string; digest: string };
const treeOf = (digit: string): string => digit.repeat(40);

const machine: RunnerInput[] = [
  { kind: 'architecture', name: 'processor', digest: 'a'.repeat(64) },
  { kind: 'network', name: 'mode', digest: 'b'.repeat(64) },
  { kind: 'packages', name: 'installed packages', digest: 'c'.repeat(64) },
  { kind: 'variable', name: 'MIRROR', digest: 'd'.repeat(64) },
  { kind: 'image', name: 'build', digest: 'e'.repeat(64) },
];
const machineWith = (changed: RunnerInput): RunnerInput[] =>
  machine.map((one) => (one.kind === changed.kind && one.name === changed.name ? changed : one));

describeWithRunnerOnOne(
  'the inputs of builds',
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
      suite = await alice.createSuite(project, { name: 'unit', command: 'make test', ...fields });
    };
    const begin = async (commit: Partial<CommitReport> = {}, fields: Record<string, string> = {}) => {
      commits += 1;
      await alice.post(`${path}/build_requests`, { commit_ref: 'main', ...fields });
      const sha = commits.toString(16).padStart(40, 'f');
      await (await runner.take('fetch_commit')).fetched({ sha, tree: treeOf('1'), ...commit });
      return runner.take('run_suite');
    };
    const idOf = ({ order }: Task<SuiteOrder>): string => order.work.environment.HEADRACE_BUILD_ID ?? '';
    const built = async (
      commit: Partial<CommitReport> = {},
      { inputs = machine, variables = {} }: Asked = {},
    ): Promise<string> => {
      const task = await begin(commit, variables);
      await task.exit(0, { inputs });
      return idOf(task);
    };
    const inputsOf = async (id: string, as = alice): Promise<Input[]> => {
      const { record, status } = await as.get(`${path}/builds/${id}/inputs`);
      assert.equal(status, 200);
      return record.inputs as Input[];
    };
    const differences = async (before: string, after: string, as = alice): Promise<string[]> => {
      const { record } = await as.get(`${path}/builds/${after}/inputs?compare=${before}`);
      return (record.differences as Input[]).map(({ kind, name }) => `${kind} ${name}`);
    };

    /** Under reuse: the ID of the build, and whether it ran. */
    const reusedOrRan = async (
      commit: Partial<CommitReport> = {},
      { inputs = machine, variables = {} }: Asked = {},
    ): Promise<{ id: string; hasRun: boolean }> => {
      commits += 1;
      const { record: request } = await alice.post(`${path}/build_requests`, { commit_ref: 'main', ...variables });
      const sha = commits.toString(16).padStart(40, 'f');
      await (await runner.take('fetch_commit')).fetched({ sha, tree: treeOf('1'), ...commit });
      const first = await runner.takeNext();
      if (first.order.work.kind === 'check_inputs') await first.finishAt(0, { kind: 'inputs' }, { inputs });
      else await first.exit(0, { inputs });
      const builds = async (): Promise<Record_[]> =>
        (await alice.get(`${path}/build_requests/${request.id_str}/builds`)).list;
      if ((await builds())[0]?.build_state !== 'passed') await (await runner.take('run_suite')).exit(0, { inputs });
      const [build] = await builds();
      assert.equal(build?.build_state, 'passed');
      return { id: build.id_str, hasRun: build?.reused_from_id === null };
    };

    test('change with each thing that a build stands on, by a byte, and with nothing else; then it runs [promise: reuse]', async () => {
      const plain = {
        reuse: 'on',
        command: '',
        'steps[0][name]': 'compile',
        'steps[0][command]': 'make',
        'steps[1][name]': 'check',
        'steps[1][command]': 'make check',
        image: 'debian:12',
        'tags[]': 'linux',
        timeout: '100',
        'artifacts[]': 'out/*',
        'cache[]': 'cache',
        'reports[]': 'junit.xml',
        'matrix[]': 'NODE=20',
        'services[0][name]': 'database',
        'services[0][image]': 'postgres:17',
        'services[0][variables][0][name]': 'MODE',
        'services[0][variables][0][content]': 'fast',
      };
      await fresh(plain);
      runner.self.tags = 'large,linux';
      const variable = await alice.createVariable(project, suite, { name: 'KEY', content: 'one', secret: 'true' });
      const { dependency, task } = await compiling(alice, runner, { name: 'openssl', launch_command: 'start' });
      await compiled(runner, task);
      await alice.post(`${path}/suites/${suite.id}/dependencies`, { dependency_id: String(dependency.id) });
      const compile = async (content?: string): Promise<void> => {
        const again = await compilingAgain(alice, runner, dependency);
        await compiled(runner, again.task, content);
      };
      const set = (fields: Record<string, string>) => async (): Promise<void> => {
        const { status, text } = await alice.put(`${path}/suites/${suite.id}`, { ...plain, ...fields });
        assert.equal(status, 200, text);
      };
      const told = (kind: RunnerInput['kind'], name: string) => ({
        inputs: machineWith({ kind, name, digest: '9'.repeat(64) }),
      });
      const variables = `${path}/suites/${suite.id}/environment_variables`;
      const rows: Record<
        string,
        {
          change?: () => Promise<unknown>;
          restore?: () => Promise<unknown>;
          commit?: Partial<CommitReport>;
          ask?: Asked;
        }
      > = {
        'tree commit': { commit: { tree: treeOf('2') } },
        'command check': { change: set({ 'steps[1][command]': 'make chec' }) },
        'image build': { ask: told('image', 'build') },
        'dependency openssl': { change: () => compile('resulu'), restore: () => compile() },
        'command launch of openssl': {
          change: () => alice.put(`/dependencies/${dependency.id}`, { launch_command: 'stars' }),
          restore: () => alice.put(`/dependencies/${dependency.id}`, { launch_command: 'start' }),
        },
        'service database': { change: set({ 'services[0][variables][0][content]': 'fas' }) },
        'variable KEY': { change: () => alice.put(`${variables}/${variable.id}`, { content: 'onf' }) },
        'variable MIRROR': { ask: told('variable', 'MIRROR') },
        'variable GIVEN': { ask: { variables: { 'variables[GIVEN]': 'x' } } },
        'limit time': { change: set({ timeout: '1' }) },
        'network mode': { ask: told('network', 'mode') },
        'architecture processor': { ask: told('architecture', 'processor') },
        'packages installed packages': { ask: told('packages', 'installed packages') },
        'setting tags': { change: set({ 'tags[]': 'large' }) },
        'setting root': { change: set({ root: 'true' }) },
        'setting artifacts': { change: set({ 'artifacts[]': 'out/?' }) },
        'setting cache': { change: set({ 'cache[]': 'cach' }) },
        'setting reports': { change: set({ 'reports[]': 'junit.xm?' }) },
        'setting name': { change: set({ name: 'units' }) },
        'setting id_tokens': {
          change: set({ 'id_tokens[0][variable]': 'ID', 'id_tokens[0][audience]': 'https://cloud.example' }),
        },
        'setting api_token': { change: set({ api_token: 'read' }) },
        'variant NODE': { change: set({ 'matrix[]': 'NODE=21' }) },
        'setting ignore_variables': { change: set({ 'ignore_variables[]': 'KEX' }) },
      };
      const { id: first, hasRun } = await reusedOrRan();
      assert.ok(hasRun);
      const { record } = await alice.get(`${path}/builds/${first}/inputs`);
      assert.match(String(record.digest), /^[0-9a-f]{64}$/);
      assert.equal('differences' in record, false);
      for (const { digest } of record.inputs as Input[]) assert.match(digest, /^[0-9a-f]{64}$/);
      // Another commit with the same files, asked for by another branch, stands on the same.
      const squash = { branches: ['side'], branch: 'side', ref: 'refs/heads/side', message: 'Squash' };
      const { id: again, ...same } = await reusedOrRan(squash);
      assert.ok(!same.hasRun, 'nothing differs');
      assert.deepEqual(await differences(first, again), []);
      assert.equal((await alice.get(`${path}/builds/${again}/inputs`)).record.digest, record.digest);
      // What the server knows itself counts, whatever a runner reports.
      const lie: RunnerInput = { kind: 'tree', name: 'commit', digest: '9'.repeat(64) };
      assert.deepEqual(await differences(first, (await reusedOrRan({}, { inputs: [...machine, lie] })).id), []);
      for (const [expected, { change, restore, commit = {}, ask = {} }] of Object.entries(rows)) {
        await change?.();
        const now = await reusedOrRan(commit, ask);
        assert.ok(now.hasRun, expected);
        assert.deepEqual(await differences(again, now.id), [expected]);
        await restore?.();
        await set({ name: 'unit' })();
        await alice.put(`${path}/suites/${suite.id}`, {
          root: '',
          api_token: 'none',
          'id_tokens[]': '',
          'ignore_variables[]': '',
        });
        await alice.put(`${variables}/${variable.id}`, { content: 'one' });
      }
    });

    test('show no digest of a variable to those who may not run anything, and compare within a project only', async () => {
      await fresh();
      const content = 'a guessable secret';
      await alice.createVariable(project, suite, { name: 'KEY', content, secret: 'true' });
      await alice.createVariable(project, suite, { name: 'OTHER', content, secret: 'false' });
      const one = await built();
      const inputs = await inputsOf(one);
      const digest = (name: string): string => inputs.find((input) => input.name === name)?.digest ?? assert.fail(name);
      assert.notEqual(digest('KEY'), digest('OTHER'), 'the same content under another name');
      const variant = await begin({}, {});
      assert.deepEqual((await alice.get(`${path}/builds/${idOf(variant)}/inputs`)).status, 200);
      await variant.exit(1);
      const { id: elsewhere } = project;
      await alice.put(path, { public: 'true' });
      const outsider = await service.user();
      for (const options of [{ as: outsider.credentials }, {}]) {
        assert.equal((await service.api.ask('GET', `${path}/builds/${one}`, options)).status, 200);
        assert.equal((await service.api.ask('GET', `${path}/builds/${one}/inputs`, options)).status, 401);
      }
      await fresh();
      await alice.createVariable(project, suite, { name: 'KEY', content, secret: 'true' });
      const other = await built();
      assert.notEqual((await inputsOf(other)).find(({ name }) => name === 'KEY')?.digest, digest('KEY'));
      assert.equal((await alice.get(`${path}/builds/${other}/inputs?compare=${one}`)).status, 404);
      assert.equal((await alice.get(`/projects/${elsewhere}/builds/${other}/inputs`)).status, 404);
      assert.equal((await outsider.get(`${path}/builds/${other}/inputs`)).status, 404);
    });

    test('do not let a collaborator guess a variable that only some refs have [promise: input-digests]', async () => {
      await fresh({
        'services[0][name]': 'database',
        'services[0][image]': 'postgres:17',
        'services[0][variables][0][name]': 'PASSWORD',
        'services[0][variables][0][from]': 'KEY',
      });
      const bob = await service.user('collaborator');
      await alice.invite(project, bob);
      await alice.post(`${path}/environment_variables`, { name: 'KEY', content: 'hunter2', 'refs[]': 'main' });
      const limited = await built();
      const names = async (as: User): Promise<string[]> => (await inputsOf(limited, as)).map(({ name }) => name);
      assert.ok((await names(alice)).includes('KEY'));
      assert.ok(!(await names(bob)).includes('KEY'));
      // Bob builds with his guess, once wrong and once right, and sees no difference but that he set a variable.
      const variable = await bob.post(`${path}/suites/${suite.id}/environment_variables`, {
        name: 'KEY',
        content: 'no',
      });
      const seen: unknown[] = [];
      for (const guess of ['hunter1', 'hunter2']) {
        const variables = `${path}/suites/${suite.id}/environment_variables/${String(variable.record.id)}`;
        assert.equal((await bob.put(variables, { content: guess })).status, 200);
        seen.push(await differences(limited, await built(), bob));
      }
      assert.deepEqual(seen, [['variable KEY'], ['variable KEY']]);
    });

    test('name the build whose files another one began with', async () => {
      await fresh();
      const { id_str: needed } = suite;
      await alice.createSuite(project, { name: 'second', 'needs[]': needed, files_from_id: needed });
      const both = async (): Promise<string> => {
        const first = await begin();
        const kept = { location: randomName(), name: randomName(), key: 'a'.repeat(64) };
        await first.exit(0, { kept, inputs: machine });
        const second = await runner.take('run_suite', { location: kept.location });
        await second.exit(0, { inputs: machine });
        return idOf(second);
      };
      assert.deepEqual(await differences(await both(), await both()), ['files unit']);
    });

    test('are empty until a build begins, and a page says them in words', async () => {
      await fresh();
      const first = await built();
      await alice.put(`${path}/suites/${suite.id}`, { command: 'make <all>' });
      const second = await built();
      const waiting = await alice.post(`${path}/builds/${second}/restart`);
      const { record } = await alice.get(`${path}/builds/${waiting.record.id}/inputs`);
      assert.deepEqual([record.digest, record.inputs], [null, []]);
      const tab = new Tab(service);
      await tab.signIn(alice.credentials);
      const page = async (query: string): Promise<string> => {
        const { text } = await tab.get(`/ui${path}/builds/${second}/details${query}`);
        return text.replaceAll(/\s+/g, ' ');
      };
      assert.match(
        await page(''),
        /<h2 id="inputs-head">Inputs<\/h2>.*Files of the commit.*Command.*Programs of the machine/,
      );
      assert.match(await page(`?compare=${first}`), /1 difference to build \d+.*<td>Command<\/td>/);
      assert.match(await page(`?compare=${second}`), /Both builds stood on the same inputs/);
      assert.match(await page('?compare=%3Cb%3E'), /no build with the number &lt;b&gt;/);
      await (await runner.take('run_suite')).exit(0);
    });
  },
  { timeoutSeconds: 1000 },
);
