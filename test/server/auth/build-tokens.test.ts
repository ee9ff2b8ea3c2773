import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import type { SuiteOrder } from '../../../src/shared/protocol/index.ts';
import { routes } from '../../../src/server/resources/index.ts';
import type { Answer, Record_ } from '../../support/client.ts';
import { Listener } from '../../support/firehose.ts';
import { aCommit, describeWithRunner, type Task } from '../../support/runner.ts';
import { fromFork, trigger } from '../../support/triggered.ts';
import type { User } from '../../support/user.ts';
import { buildWorld, type World } from '../../support/world.ts';

const tokenIn = ({ order }: Task<SuiteOrder>): string => order.work.tokens?.['HEADRACE_TOKEN'] ?? '';
const bearer = (token: string) => ({ headers: { authorization: `Bearer ${token}` } });

describeWithRunner(
  'the credential of a build',
  (service, runner) => {
    let alice: User;
    let project: Record_;
    let path: string;
    let suite: Record_;
    before(async () => {
      alice = await service.user();
      project = await alice.createProject();
      path = `/projects/${project.id}`;
      suite = await alice.createSuite(project, { name: 'report', api_token: 'read' });
    });

    const begin = async (ref = 'main'): Promise<Task<SuiteOrder>> => {
      await alice.requestBuild(project, ref);
      await (await runner.take('fetch_commit')).fetched();
      return runner.take('run_suite');
    };
    const get = (at: string, token: string): Promise<Answer> => service.api.get(at, bearer(token));
    const status = async (at: string, token: string): Promise<number> => (await get(at, token)).status;
    const start = (token: string, form: Record<string, string> = { commit_ref: 'main' }): Promise<Answer> =>
      service.api.post(`${path}/build_requests`, { ...bearer(token), form });

    test('reads its own project, as anybody reads a public one, and nothing else [promise: build-token]', async () => {
      const task = await begin();
      const token = tokenIn(task);
      assert.match(token, /^hrb_[\w-]{43}$/);
      assert.equal(task.order.work.environment['HEADRACE_TOKEN'], undefined);
      const stored = await service.store.db.read.selectFrom('build_tokens').selectAll().execute();
      assert.ok(!JSON.stringify(stored.map(({ token_hash: hash }) => hash)).includes(token));
      const build = task.order.work.environment['HEADRACE_BUILD_ID'];
      assert.equal((await get(`${path}/builds/${build}`, token)).record.build_state, 'running');
      const [request] = (await get(`${path}/build_requests`, token)).list;
      assert.deepEqual([request?.created_by, request?.variables], ['', {}]);
      assert.equal((await get(path, token)).record.ssh_public_key, '');
      const other = await alice.createProject();
      assert.equal(await status(`/projects/${other.id}`, token), 404);
      assert.equal(await status(`/projects/${other.id}/builds`, token), 404);
      assert.equal((await start(token)).status, 401);
      // Neither in the address, nor as the password of somebody.
      assert.equal((await service.api.get(`${path}/builds?oauth_token=${token}`)).status, 401);
      const as = { email: alice.email, api_key: token };
      assert.equal((await service.api.get(`${path}/builds`, { as })).status, 401);
      await task.exit(0);
    });

    test('starts builds where it may write: without variables, and asked for by nobody', async () => {
      await alice.put(`${path}/suites/${suite.id}`, { api_token: 'write' });
      const task = await begin();
      const token = tokenIn(task);
      const made = await start(token, { commit_ref: aCommit.sha });
      assert.equal(made.status, 201, made.text);
      assert.equal((await start(token, { commit_ref: 'main', 'variables[BASH_ENV]': '/tmp/x' })).status, 401);
      const [row] = await service.store.db.read
        .selectFrom('build_requests')
        .select(['asked_by', 'created_by'])
        .where('id', '=', made.record.id)
        .execute();
      assert.equal(row?.asked_by, null);
      const second = await runner.take('run_suite');
      assert.notEqual(tokenIn(second), token);
      // No key of idempotency is shared with the people of the project.
      const keyed = { ...bearer(token).headers, 'idempotency-key': 'of-alice' };
      const form = { commit_ref: aCommit.sha };
      const ids = await Promise.all(
        [1, 2].map(async () => (await service.api.post(`${path}/build_requests`, { headers: keyed, form })).record.id),
      );
      assert.notEqual(ids[0], ids[1]);
      for (const id of ids) await alice.post(`${path}/build_requests/${id}/cancel`);
      await task.exit(0);
      await second.exit(0);
    });

    test('ends with the build: when it passes, is cancelled, tried again or lost [promise: build-token]', async () => {
      const passed = await begin();
      const listener = new Listener(await service.api.open(`${path}/firehose`, bearer(tokenIn(passed))));
      assert.equal(await status(path, tokenIn(passed)), 200);
      await passed.exit(0);
      assert.equal(await status(path, tokenIn(passed)), 401);
      await listener.rest();

      const cancelled = await begin();
      const build = cancelled.order.work.environment['HEADRACE_BUILD_ID'];
      await alice.post(`${path}/builds/${build}/cancel`);
      assert.equal(await status(path, tokenIn(cancelled)), 401, 'while it still ends');
      await cancelled.finish({ kind: 'cancelled' });
      assert.equal((await alice.post(`${path}/builds/${build}/restart`)).status, 201);
      const again = await runner.take('run_suite');
      assert.equal(await status(path, tokenIn(cancelled)), 401);
      assert.equal(await status(path, tokenIn(again)), 200);

      await runner.dispatch.holderGone(runner.self.holder);
      assert.equal(await status(path, tokenIn(again)), 401);
      const next = await runner.take('run_suite');
      assert.equal(await status(path, tokenIn(next)), 200);
      await alice.put(`${path}/suites/${suite.id}`, { api_token: 'none' });
      await next.exit(0);
      assert.equal(await status(path, tokenIn(next)), 401);
    });

    test('is never for forks, and a branch’s file gives no more than the project’s suite has [promise: build-token]', async () => {
      await alice.put(`${path}/suites/${suite.id}`, { api_token: 'read' });
      await alice.put(path, { config_file: '.headrace.toml' });
      const text = `
      [[suites]]
      name = "report"
      command = "steal"
      api_token = "write"
      [[suites]]
      name = "mine"
      command = "steal"
      api_token = "write"
    `;
      await alice.requestBuild(project, 'topic');
      const own = { branches: ['topic'], branch: 'topic', ref: 'refs/heads/topic', defaultHead: 'kept' as const };
      const commit = { ...aCommit, ...own, sha: '7'.repeat(40) };
      const fetch = await runner.take('fetch_commit');
      await fetch.finish({ kind: 'fetched', commit, config: { text, path: '.headrace.toml', before: null } });
      const tasks = [await runner.take('run_suite'), await runner.take('run_suite')];
      const tokens = new Map(tasks.map((task) => [task.order.work.environment['HEADRACE_SUITE'], tokenIn(task)]));
      assert.equal(tokens.get('mine'), '');
      assert.equal(await status(path, tokens.get('report') ?? ''), 200);
      assert.equal((await start(tokens.get('report') ?? '')).status, 401);
      for (const task of tasks) await task.exit(0);

      await alice.put(path, { config_file: '' });
      await trigger(service.store, project, '8'.repeat(40), fromFork);
      const found = { sha: '8'.repeat(40), branches: [], tags: [], branch: null, ref: 'refs/pull/7/head' };
      await (await runner.take('fetch_commit')).fetched(found);
      const forks = await runner.take('run_suite');
      assert.deepEqual([forks.order.work.tokens, forks.order.work.api], [undefined, undefined]);
      await forks.exit(0);
    });

    test('opens no route that a stranger of a public project has not [promise: build-token]', async () => {
      await alice.put(`${path}/suites/${suite.id}`, { api_token: 'write' });
      const task = await begin();
      const token = tokenIn(task);
      const world: World = await buildWorld(service, alice);
      const opened: string[] = [];
      for (const { method, path: route, access, credentials } of routes) {
        if (credentials === 'none' || (access === 'public' && method === 'GET')) continue;
        for (const at of [world.path(route), world.path(route).replace(`/projects/${world.project.id}`, path)]) {
          const answer = await service.api.ask(method, at, bearer(token));
          if (answer.status !== 401 && answer.status !== 404) opened.push(`${method} ${at}: ${answer.status}`);
        }
      }
      // Without a ref it is refused for that.
      assert.deepEqual(opened, [`POST ${path}/build_requests: 403`]);
      await task.exit(0);
    });
  },
  { streamPauseMs: 50 },
);
