import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { stringify } from 'smol-toml';
import type { Trigger } from '../../../src/server/lifecycle/requests.ts';
import type { CommitReport } from '../../../src/shared/protocol/index.ts';
import type { Record_ } from '../../support/client.ts';
import { aCommit, describeWithRunner } from '../../support/runner.ts';
import { trigger } from '../../support/triggered.ts';
import type { User } from '../../support/user.ts';

let number = 0;
const freshSha = (): string => (number += 1).toString(16).padStart(40, 'c');

/** What a fetch finds: of a branch or tag by its name, and of a SHA without a ref that ends in it. */
const found = (ref: string | null, branches: string[], tags: string[] = []): Partial<CommitReport> => ({
  ref,
  branches,
  tags,
  branch: branches[0] ?? null,
  defaultHead: 'kept',
});
const pushed = (fetchRef: string): Partial<Trigger> => ({ fetchRef, targetBranch: fetchRef.slice(11), group: '' });
const ofPull = (fetchRef: string): Partial<Trigger> => ({
  event: 'pull_request',
  pullRequest: 3n,
  fetchRef,
  group: '',
});

/** KEY is limited to main and to the tags v*, WIDE to release/*, PLAIN to nothing. */
interface Row {
  /** By hand, with this ref; `SHA` for the commit's own. */
  by?: string;
  /** Or a trigger. */
  as?: Partial<Trigger>;
  commit: Partial<CommitReport>;
  has: string[];
  why?: string;
}
const rows: Record<string, Row> = {
  'a push to main': { as: pushed('refs/heads/main'), commit: found(null, ['main']), has: ['KEY', 'PLAIN'] },
  'a push to another branch': {
    as: pushed('refs/heads/scratch'),
    commit: found('refs/heads/scratch', ['scratch']),
    has: ['PLAIN'],
    why: 'ref',
  },
  'a push to another branch of what main has as well': {
    as: pushed('refs/heads/scratch'),
    commit: found('refs/heads/scratch', ['main', 'scratch']),
    has: ['PLAIN'],
    why: 'ref',
  },
  'a push that a forge says was to main, of a commit that is not there': {
    as: pushed('refs/heads/main'),
    commit: found(null, ['scratch']),
    has: ['PLAIN'],
    why: 'ref',
  },
  'a tag v1': {
    as: { ...pushed('refs/tags/v1'), event: 'tag', targetBranch: '' },
    commit: found('refs/tags/v1', [], ['v1']),
    has: ['KEY', 'PLAIN'],
  },
  'a branch v1': { as: pushed('refs/heads/v1'), commit: found('refs/heads/v1', ['v1']), has: ['PLAIN'], why: 'ref' },
  'a tag that is called main': {
    as: { ...pushed('refs/tags/main'), event: 'tag', targetBranch: '' },
    commit: found('refs/tags/main', ['scratch'], ['main']),
    has: ['PLAIN'],
    why: 'ref',
  },
  'a branch that is called like the full name of main': {
    as: pushed('refs/heads/refs/heads/main'),
    commit: found(null, ['refs/heads/main']),
    has: ['PLAIN'],
    why: 'ref',
  },
  'a branch below main': {
    as: pushed('refs/heads/main/x'),
    commit: found(null, ['main/x']),
    has: ['PLAIN'],
    why: 'ref',
  },
  'a branch that a glob describes': {
    as: pushed('refs/heads/release/1'),
    commit: found(null, ['release/1']),
    has: ['PLAIN', 'WIDE'],
    why: 'ref',
  },
  'a branch below what a glob describes': {
    as: pushed('refs/heads/release/1/x'),
    commit: found(null, ['release/1/x']),
    has: ['PLAIN'],
    why: 'ref',
  },
  'a pull request of the repository itself': {
    as: ofPull('refs/pull/3/head'),
    commit: found('refs/pull/3/head', ['main']),
    has: ['PLAIN'],
    why: 'pull_request',
  },
  'a pull request that a forge says is main': {
    as: ofPull('refs/heads/main'),
    commit: found('refs/heads/main', ['main']),
    has: ['PLAIN'],
    why: 'pull_request',
  },
  'a pull request from a fork': {
    as: { ...ofPull('refs/pull/3/head'), fromFork: true },
    commit: found('refs/pull/3/head', []),
    has: [],
    why: 'fork',
  },
  'a fork that calls its branch main': {
    as: { ...pushed('refs/heads/main'), fromFork: true },
    commit: found('refs/heads/main', ['main']),
    has: [],
    why: 'fork',
  },
  'a poll of main': {
    as: { ...pushed('refs/heads/main'), event: 'poll', source: 'poll' },
    commit: found(null, ['main']),
    has: ['KEY', 'PLAIN'],
  },
  'a poll of another branch': {
    as: { ...pushed('refs/heads/scratch'), event: 'poll', source: 'poll' },
    commit: found(null, ['scratch']),
    has: ['PLAIN'],
    why: 'ref',
  },
  'a schedule of main': {
    by: 'main',
    as: { event: 'schedule', source: 'schedule:1', fetchRef: '', targetBranch: '', group: '' },
    commit: found('refs/heads/main', ['main']),
    has: ['KEY', 'PLAIN'],
  },
  'a schedule of another branch': {
    by: 'scratch',
    as: { event: 'schedule', source: 'schedule:1', fetchRef: '', targetBranch: '', group: '' },
    commit: found('refs/heads/scratch', ['scratch']),
    has: ['PLAIN'],
    why: 'ref',
  },
  'main by hand': { by: 'main', commit: found('refs/heads/main', ['main']), has: ['KEY', 'PLAIN'] },
  'main by hand, by its full name': {
    by: 'refs/heads/main',
    commit: found('refs/heads/main', ['main']),
    has: ['KEY', 'PLAIN'],
  },
  'the default branch by hand': { by: 'HEAD', commit: found('refs/heads/main', ['main']), has: ['KEY', 'PLAIN'] },
  'another branch by hand, of what main has as well': {
    by: 'scratch',
    commit: found('refs/heads/scratch', ['main', 'scratch']),
    has: ['PLAIN'],
    why: 'ref',
  },
  'a tag main by hand': { by: 'main', commit: found('refs/tags/main', ['main'], ['main']), has: ['PLAIN'], why: 'ref' },
  'the ref of a pull request by hand': {
    by: 'refs/pull/3/head',
    commit: found('refs/pull/3/head', ['main']),
    has: ['PLAIN'],
    why: 'ref',
  },
  'a SHA by hand, on main': { by: 'SHA', commit: found(null, ['main', 'scratch']), has: ['KEY', 'PLAIN'] },
  'a SHA by hand, on another branch': { by: 'SHA', commit: found(null, ['scratch']), has: ['PLAIN'], why: 'ref' },
  'a short SHA by hand, on main': { by: 'short', commit: found(null, ['main']), has: ['KEY', 'PLAIN'] },
  'a SHA by hand, of a tag': { by: 'SHA', commit: found(null, ['scratch'], ['v1']), has: ['PLAIN'], why: 'ref' },
  'a SHA by hand, on nothing': { by: 'SHA', commit: found(null, []), has: [], why: 'fork' },
};

describeWithRunner('variables that are limited to refs', (service, runner) => {
  let alice: User;
  let project: Record_;
  let path: string;
  let suite: Record_;
  before(async () => {
    alice = await service.user();
    project = await alice.createProject();
    path = `/projects/${project.id}`;
    suite = await alice.createSuite(project);
    await alice.createVariable(project, suite, { name: 'KEY', content: 'of-main', refs: '' });
    await alice.createVariable(project, suite, { name: 'PLAIN', content: 'of-all' });
    await alice.post(`${path}/environment_variables`, {
      name: 'WIDE',
      content: 'of-releases',
      'refs[]': 'refs/heads/release/*',
    });
    const [key] = (await alice.get(`${path}/suites/${suite.id}/environment_variables`)).list;
    const own = `${path}/suites/${suite.id}/environment_variables/${key?.id}`;
    const limited = await service.api.put(own, { as: alice.credentials, json: { refs: ['main', 'refs/tags/v*'] } });
    assert.deepEqual(limited.record.refs, ['main', 'refs/tags/v*']);
  });

  /** The limited and the other variables that the next build has. */
  const had = async () => {
    const task = await runner.take('run_suite');
    const { environment, secrets } = task.order.work;
    await task.exit(1);
    const names = ['KEY', 'PLAIN', 'WIDE'].filter((name) => name in environment);
    const contents: Record<string, string> = { KEY: 'of-main', PLAIN: 'of-all', WIDE: 'of-releases' };
    assert.deepEqual(
      names.map((name) => environment[name]),
      names.map((name) => contents[name]),
    );
    assert.deepEqual(secrets.toSorted(), names.map((name) => contents[name] ?? '').toSorted());
    return { names, id: environment['HEADRACE_BUILD_ID'] };
  };

  describe('are in a build of', () => {
    for (const [what, { by, as, commit, has, why }] of Object.entries(rows))
      test(`${what}: ${has.join(' and ') || 'none'} [promise: limited-variables]`, async () => {
        const sha = freshSha();
        const ref = by === 'SHA' || by === undefined ? sha : by === 'short' ? sha.slice(0, 10) : by;
        if (as) await trigger(service.store, project, ref, as);
        else await alice.requestBuild(project, ref);
        await (await runner.take('fetch_commit')).fetched({ ...commit, sha });
        const first = await had();
        assert.deepEqual(first.names, has);
        const build = (await alice.get(`${path}/builds/${first.id}`)).record;
        const withheld = build.withheld_variables as { name: string; reason: string }[];
        assert.deepEqual(
          withheld.map(({ name }) => name).toSorted(),
          ['KEY', 'PLAIN', 'WIDE'].filter((name) => !has.includes(name)),
        );
        assert.ok(withheld.every(({ reason }) => reason === (why ?? 'ref')));
        // However it is run again, it is the same commit of the same ref.
        const { list } = await alice.get(`${path}/build_requests`);
        assert.equal((await alice.post(`${path}/build_requests/${list[0]?.id}/rerun`)).status, 200);
        assert.deepEqual((await had()).names, has);
        assert.equal((await alice.post(`${path}/builds/${first.id}/restart`)).status, 201);
        assert.deepEqual((await had()).names, has);
      });
  });

  test('are in builds of main after a merge, which was fetched as another branch before', async () => {
    const sha = freshSha();
    await trigger(service.store, project, sha, pushed('refs/heads/scratch'));
    await (await runner.take('fetch_commit')).fetched({ ...found(null, ['scratch']), sha });
    assert.deepEqual((await had()).names, ['PLAIN']);
    await trigger(service.store, project, sha, pushed('refs/heads/main'));
    await (await runner.take('fetch_commit')).fetched({ ...found(null, ['main', 'scratch']), sha });
    assert.deepEqual((await had()).names, ['KEY', 'PLAIN']);
    // The other branch stays another branch, although the commit is known and on main now.
    await trigger(service.store, project, sha, pushed('refs/heads/scratch'));
    assert.deepEqual((await had()).names, ['PLAIN']);
    await alice.requestBuild(project, sha);
    assert.deepEqual((await had()).names, ['KEY', 'PLAIN']);
  });

  test('are judged when the build begins, and one that is withheld gives way to one of the same name', async () => {
    const wide = (await alice.get(`${path}/environment_variables`)).list[0];
    const made = await alice.createVariable(project, suite, { name: 'WIDE', content: 'of-all', 'refs[]': 'nowhere' });
    await alice.requestBuild(project, 'release/2');
    const sha = freshSha();
    await (await runner.take('fetch_commit')).fetched({ ...found('refs/heads/release/2', ['release/2']), sha });
    const task = await runner.take('run_suite');
    assert.equal(task.order.work.environment['WIDE'], 'of-releases', 'the suite’s own is withheld');
    await task.exit(0);
    await alice.delete(`${path}/suites/${suite.id}/environment_variables/${made.id}`);
    await alice.put(`${path}/environment_variables/${wide?.id}`, { 'refs[]': 'other' });
    await alice.requestBuild(project, 'release/2');
    await (await runner.take('fetch_commit')).fetched({ ...found('refs/heads/release/2', ['release/2']), sha });
    assert.deepEqual((await had()).names, ['PLAIN']);
    await alice.put(`${path}/environment_variables/${wide?.id}`, { 'refs[]': 'release/*' });
  });

  test('are in no service of another ref', async () => {
    const own = await alice.createProject();
    const name = 'with a service';
    const json = {
      name,
      command: 'x',
      services: [{ name: 'db', image: 'db:1', variables: [{ name: 'PASSWORD', from: 'KEY' }] }],
    };
    const made = await service.api.post(`/projects/${own.id}/suites`, { as: alice.credentials, json });
    await alice.createVariable(own, made.record, { name: 'KEY', content: 'of-main', 'refs[]': 'main' });
    await alice.requestBuild(own, 'scratch');
    await (await runner.take('fetch_commit')).fetched({ ...found('refs/heads/scratch', ['scratch']), sha: freshSha() });
    await runner.assertIdle();
    const [build] = (await alice.get(`/projects/${own.id}/builds`)).list;
    assert.deepEqual([build?.build_state, build?.failure_reason], ['errored', 'variable_missing']);
    await alice.requestBuild(own, 'main');
    await (await runner.take('fetch_commit')).fetched({ ...found('refs/heads/main', ['main']), sha: freshSha() });
    const task = await runner.take('run_suite');
    assert.equal(task.order.work.services?.[0]?.environment['PASSWORD'], 'of-main');
    await task.exit(0);
  });

  test('are told in the log of a build that names them and lacks them, by their names alone', async () => {
    const own = await alice.createProject();
    const at = `/projects/${own.id}`;
    const json = {
      name: 'told',
      steps: [
        { name: 'one', command: 'echo "$KEY" KEYS my_WIDE' },
        { name: 'two', command: 'publish --token\nPLAIN', when: 'always' },
      ],
      services: [{ name: 'db', image: 'db:1', variables: [{ name: 'PASSWORD', from: 'DB_KEY' }] }],
    };
    const made = await service.api.post(`${at}/suites`, { as: alice.credentials, json });
    await alice.createVariable(own, made.record, { name: 'KEY', content: 'of-main', 'refs[]': 'main' });
    for (const name of ['PLAIN', 'DB_KEY', 'WIDE', 'publish_'])
      await alice.createVariable(own, made.record, { name, content: `content-of-${name}`, secret: 'true' });
    const logOf = async (): Promise<string> => {
      const [build] = (await alice.get(`${at}/builds`)).list;
      return (await alice.get(`${at}/builds/${build?.id}/log.txt`)).text;
    };
    const built = async (
      begin: (sha: string) => Promise<unknown>,
      commit: Partial<CommitReport> | null,
    ): Promise<string> => {
      const sha = freshSha();
      await begin(sha);
      if (commit) await (await runner.take('fetch_commit')).fetched({ ...commit, sha });
      const task = await runner.take('run_suite');
      await task.writeLog('a step\n');
      await task.exit(0);
      return logOf();
    };
    const fork = 'This build comes from a fork, so it does not get: DB_KEY, KEY, PLAIN.\na step\n';
    const proposed = { ...ofPull('refs/pull/3/head'), fromFork: true };
    const byFork = (sha: string): Promise<unknown> => trigger(service.store, own, sha, proposed);
    assert.equal(await built(byFork, found('refs/pull/3/head', [])), fork);
    const [first] = (await alice.get(`${at}/builds`)).list;
    assert.equal(
      await built(() => alice.post(`${at}/builds/${first?.id}/restart`), null),
      fork,
      'once for each attempt',
    );
    const ask = (ref: string) => alice.post(`${at}/build_requests`, { commit_ref: ref });
    assert.equal(
      await built(() => ask('scratch'), found('refs/heads/scratch', ['scratch'])),
      'This build does not match the refs that these variables are limited to, so it does not get: KEY.\na step\n',
    );
    const pull = (sha: string): Promise<unknown> => trigger(service.store, own, sha, ofPull('refs/pull/3/head'));
    assert.equal(
      await built(pull, found('refs/pull/3/head', ['main'])),
      'This build belongs to a pull request, not to the refs that these variables are limited to, so it does not get: KEY.\na step\n',
    );
    // It has another one of this name.
    await alice.post(`${at}/environment_variables`, { name: 'KEY', content: 'of the project' });
    assert.equal(await built(() => ask('scratch'), found('refs/heads/scratch', ['scratch'])), 'a step\n');
    assert.equal(await built(() => ask('main'), found('refs/heads/main', ['main'])), 'a step\n');
    // A service does not begin without one, and the log says why it is not there.
    const [password] = (await alice.get(`${at}/suites/${made.record.id}/environment_variables`)).list.filter(
      ({ name }) => name === 'DB_KEY',
    );
    await alice.put(`${at}/suites/${made.record.id}/environment_variables/${password?.id}`, { 'refs[]': 'main' });
    await ask('scratch');
    await (await runner.take('fetch_commit')).fetched({ ...found('refs/heads/scratch', ['scratch']), sha: freshSha() });
    await runner.assertIdle();
    assert.match(
      await logOf(),
      /^This build does not match the refs .* does not get: DB_KEY\.\nThe service db takes PASSWORD from the variable DB_KEY/,
    );
  });

  test('are not reached by the file of another branch, whatever it says', async () => {
    const own = await alice.createProject({ config_file: '.headrace.toml', branch_secrets: 'true' });
    const ofProject = `/projects/${own.id}/environment_variables`;
    const deploy = await alice.createSuite(own, { name: 'deploy' });
    await alice.createVariable(own, deploy, { name: 'KEY', content: 'of-main', 'refs[]': 'main' });
    await alice.post(ofProject, { name: 'WIDE', content: 'of-main', 'refs[]': 'main' });
    const variable = { name: 'KEY', keep: true, refs: ['scratch'] };
    const file = {
      suites: [
        { name: 'deploy', command: 'printenv', variables: [variable] },
        { name: 'another', command: 'printenv', needs: ['deploy'] },
      ],
    };
    const build = async (branch: string) => {
      await alice.requestBuild(own, branch);
      const task = await runner.take('fetch_commit');
      const commit = { ...aCommit, ...found(`refs/heads/${branch}`, [branch]), sha: freshSha() };
      const config = { text: stringify(file), path: '.headrace.toml', before: null };
      assert.deepEqual(await task.finish({ kind: 'fetched', commit, config }), { taken: true });
      const seen: string[] = [];
      for (const name of ['deploy', 'another']) {
        const run = await runner.take('run_suite');
        const { environment } = run.order.work;
        assert.equal(environment['HEADRACE_SUITE'], name);
        seen.push(...['KEY', 'WIDE'].filter((one) => one in environment).map((one) => `${name} ${one}`));
        await run.exit(0);
      }
      return seen;
    };
    assert.deepEqual(await build('scratch'), []);
    assert.deepEqual(await build('main'), ['deploy KEY', 'deploy WIDE', 'another WIDE']);
  });

  test('are in the builds of a deploy if the commit is on such a branch', async () => {
    const own = await alice.createProject();
    const ship = await alice.createSuite(own, { manual: 'true' });
    await alice.createVariable(own, ship, { name: 'KEY', content: 'of-main', 'refs[]': 'main' });
    const strategy = await alice.createStrategy(own, {
      strategy_type: 'suite',
      'options[suite_id]': ship.id_str,
      'options[repository_url]': '',
      'options[local_branch]': '',
      'options[remote_branch]': '',
    });
    for (const [branches, isThere] of [
      [['main', 'scratch'], true],
      [['scratch'], false],
    ] as const) {
      await alice.requestBuild(own, 'scratch');
      const commit = { ...found('refs/heads/scratch', [...branches]), sha: freshSha() };
      await (await runner.take('fetch_commit')).fetched(commit);
      const [known] = (await alice.get(`/projects/${own.id}/commits`)).list;
      const asked = { deploy_strategy_id: strategy.id, commit_id: known?.id ?? 0n };
      const deploy = await alice.post(`/projects/${own.id}/deploys`, asked);
      assert.equal(deploy.status, 201, deploy.text);
      const task = await runner.take('run_suite');
      assert.equal('KEY' in task.order.work.environment, isThere);
      await task.exit(0);
    }
  });

  test('are in no build that begins with what a branch that lacks them has made [promise: limited-variables]', async () => {
    const own = await alice.createProject();
    const at = `/projects/${own.id}`;
    const json = {
      name: 'cached',
      command: 'x',
      cache: ['deps'],
      services: [{ name: 'db', image: 'db:1', prepare: 'fill', data: ['/srv/data'] }],
    };
    const suite = (await service.api.post(`${at}/suites`, { as: alice.credentials, json })).record;
    const begin = async (ask: string, commit: Partial<CommitReport>, sha = freshSha()) => {
      await alice.requestBuild(own, ask === 'SHA' ? sha : ask);
      await (await runner.take('fetch_commit')).fetched({ ...commit, sha });
      return runner.take('run_suite');
    };
    /** Leaves a cache and the data of its service, named by the branch. */
    let trees = 1n;
    const leave = async (task: Awaited<ReturnType<typeof begin>>): Promise<void> => {
      const content = (async function* all() {
        yield Buffer.from(freshSha());
      })();
      const stored = await runner.dispatch.store(runner.self, task.order.claim, content);
      assert.ok('digest' in stored);
      const data = { name: String((trees += 1n)), digest: 'd'.repeat(64), bytes: 1, isMade: true, hadSecrets: false };
      await runner.dispatch.services(runner.self, {
        claim: task.order.claim,
        services: [{ name: 'db', state: 'ready', data }],
      });
      await task.finish({ kind: 'exited', status: 0, cache: { digest: stored.digest } });
    };
    const branch = (name: string, isDefault = false) => ({
      ...found(`refs/heads/${name}`, [name]),
      ...(isDefault && { defaultHead: 'this' as const, defaultBranch: name }),
    });
    await leave(await begin('main', branch('main', true)));
    await leave(await begin('scratch', branch('scratch')));
    await leave(await begin('release/1', branch('release/1')));
    const both = { ...found(null, ['release/1', 'scratch']), branch: 'scratch' };
    const tagged = { ...found('refs/tags/v1', ['release/1', 'scratch'], ['v1']), branch: 'scratch' };
    const seen = async (ask: string, commit: Partial<CommitReport>) => {
      const task = await begin(ask, commit);
      const { cache, services, environment } = task.order.work;
      const [data] = services ?? [];
      await task.exit(0);
      const writes = [cache?.savesAs, data?.saves].filter((saves) => saves !== undefined).length;
      return [cache?.found?.branch, data?.kept?.length, writes, 'KEY' in environment];
    };
    assert.deepEqual(await seen('SHA', both), ['scratch', 2, 2, false]);
    const key = await alice.createVariable(own, suite, { name: 'KEY', 'refs[]': 'release/*' });
    // The commit is on a branch that has the variable, and is counted with one that has not.
    assert.deepEqual(await seen('SHA', both), ['main', 1, 0, true]);
    assert.deepEqual(await seen('SHA', { ...both, branch: 'release/1' }), ['release/1', 2, 2, true]);
    assert.deepEqual(await seen('release/1', branch('release/1')), ['release/1', 2, 2, true]);
    assert.deepEqual(await seen('scratch', branch('scratch')), ['scratch', 2, 2, false]);
    assert.deepEqual(await seen('v1', tagged), ['scratch', 2, 2, false]);
    await alice.put(`${at}/suites/${suite.id}/environment_variables/${key.id}`, { 'refs[]': 'refs/tags/v*' });
    assert.deepEqual(await seen('v1', tagged), ['main', 1, 0, true]);
  });
});
