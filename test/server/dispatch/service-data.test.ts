import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { before, test } from 'node:test';
import type { ServiceOrder, ServiceState, SuiteOrder } from '../../../src/shared/protocol/index.ts';
import type { Record_ } from '../../support/client.ts';
import { assertNotFound } from '../../support/expect.ts';
import { describeWithRunner, type Task } from '../../support/runner.ts';
import { fromFork, trigger } from '../../support/triggered.ts';
import type { User } from '../../support/user.ts';

describeWithRunner('the data of a service', (service, runner) => {
  let alice: User;
  let project: Record_;
  let suite: Record_;
  let trees = 72_057_594_037_927_936n;
  const database = {
    'services[0][name]': 'db',
    'services[0][image]': 'postgres:17',
    'services[0][prepare]': 'fill',
    'services[0][data][]': '/srv/data',
  };
  before(async () => {
    alice = await service.user();
  });
  const begun = async (): Promise<void> => {
    project = await alice.createProject();
    suite = await alice.createSuite(project, database);
  };
  const shaOf = (): string => randomUUID().replaceAll('-', '').padEnd(40, '0');
  /** Begins the build of a branch, or of a fork where it is none. */
  const build = async (branch: string | null = 'main'): Promise<Task<SuiteOrder>> => {
    const sha = shaOf();
    if (branch === null) await trigger(service.store, project, sha, fromFork);
    else await alice.requestBuild(project, branch);
    const isDefault = branch === 'main';
    const names = branch === null ? { branches: [], tags: [] } : { branches: [branch] };
    await (
      await runner.take('fetch_commit')
    ).fetched({
      sha,
      branch,
      ...names,
      ref: branch === null ? 'refs/pull/7/head' : `refs/heads/${branch}`,
      defaultHead: isDefault ? 'this' : 'kept',
      ...(isDefault && { defaultBranch: 'main' }),
    });
    return runner.take('run_suite');
  };
  const orderOf = ({ order }: Task<SuiteOrder>): ServiceOrder => order.work.services?.[0] ?? assert.fail();
  const keptFor = (task: Task<SuiteOrder>) => orderOf(task).kept?.map(({ name }) => name) ?? [];
  const told = (data: Partial<NonNullable<ServiceState['data']>> = {}): ServiceState => {
    const made = { digest: 'd'.repeat(64), bytes: 4096, isMade: true, hadSecrets: false };
    return { name: 'db', state: 'ready', data: { name: String((trees += 1n)), ...made, ...data } };
  };
  const tell = ({ order }: Task<SuiteOrder>, state: ServiceState) =>
    runner.dispatch.services(runner.self, { claim: order.claim, services: [state] });
  /** A build leaves data, and says so while it runs and at its end. Answers their name. */
  const leave = async (task: Task<SuiteOrder>, data: Parameters<typeof told>[0] = {}): Promise<string> => {
    const state = told(data);
    await tell(task, state);
    await task.exit(0, { services: [state] });
    return state.data?.name ?? '';
  };
  /** What the next build of a branch may begin with. */
  const offered = async (branch?: string | null): Promise<string[]> => {
    const task = await build(branch);
    const names = keptFor(task);
    await task.exit(0);
    return names;
  };
  const listed = async (): Promise<Record_[]> => (await alice.get(`/projects/${project.id}/caches`)).list;

  test('are for builds of their branch and the default one, and no branch writes another’s [promise: service-data]', async () => {
    await begun();
    const first = await build();
    assert.deepEqual([orderOf(first).kept, orderOf(first).saves], [undefined, true]);
    const main = await leave(first);
    assert.deepEqual(await offered(), [main]);
    const topic = await leave(await build('topic'));
    assert.deepEqual(await offered('topic'), [topic, main], 'its own first');
    assert.deepEqual(await offered('other'), [main]);
    assert.deepEqual(await offered(), [main], 'what a branch fills does not reach main');
    // Made again of the same, it takes the place of what its own branch had.
    const again = await leave(await build('topic'));
    assert.deepEqual(await offered('topic'), [again, main]);
    const stale = (names: string[]) =>
      runner.dispatch.stale(runner.self, { trees: names.map((name) => ({ project: project.id_str, name })) });
    assert.deepEqual(
      (await stale([main, topic, again])).map(({ name }) => name),
      [topic],
    );
  });

  test('of builds with secrets are not for forks, and forks leave none [promise: service-data]', async () => {
    await begun();
    const secret = await leave(await build(), { hadSecrets: true, digest: 'a'.repeat(64) });
    const open = await leave(await build(), { hadSecrets: false, digest: 'b'.repeat(64) });
    assert.deepEqual((await offered()).toSorted(), [secret, open].toSorted());
    const fork = await build(null);
    assert.deepEqual([keptFor(fork), orderOf(fork).saves], [[open], undefined]);
    await leave(fork, { digest: 'c'.repeat(64) });
    assert.deepEqual((await offered()).toSorted(), [secret, open].toSorted(), 'whatever its runner says');
    assert.equal((await listed()).length, 2);
  });

  test('are listed with the caches, and deleted with them', async () => {
    await begun();
    const main = await build();
    await leave(main, { bytes: 12_345 });
    const [one] = await listed();
    assert.deepEqual(
      [one?.suite_id, one?.suite_id_str, one?.branch, one?.size, Object.keys(one ?? {}).length],
      [suite.id, suite.id_str, 'main', 12_345, 8],
    );
    const path = `/projects/${project.id}/caches`;
    const stranger = await service.user();
    assertNotFound(await stranger.delete(`${path}/${one?.id}`));
    // A build that began with it tells of that once more after somebody has deleted it.
    const using = await build();
    const [kept] = orderOf(using).kept ?? assert.fail();
    assert.deepEqual([kept?.build, kept?.digest], [main.order.work.environment['HEADRACE_BUILD_ID'], 'd'.repeat(64)]);
    const used = told({ name: kept?.name ?? '', isMade: false });
    await tell(using, used);
    const making = await build('topic');
    const made = told({ digest: 'e'.repeat(64) });
    await tell(making, made);
    assert.deepEqual(new Set((await listed()).map(({ branch }) => branch)), new Set(['main', 'topic']));
    assert.equal((await alice.delete(`${path}/${one?.id}`)).status, 200);
    assert.deepEqual(
      (await listed()).map(({ branch }) => branch),
      ['topic'],
    );
    assert.equal((await alice.delete(path)).status, 200);
    await using.exit(0, { services: [used] });
    await making.exit(0, { services: [made] });
    assert.deepEqual(await listed(), [], 'what was deleted does not come back');
    assert.deepEqual(await offered(), []);
    await leave(await build());
    await alice.delete(`/projects/${project.id}/suites/${suite.id}`);
    assert.deepEqual(await listed(), []);
  });
});
