import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pino } from 'pino';
import { createAnswerCache, noAnswerCache, type AnswerCache } from '../../src/api/answer-cache.ts';
import { endpointsOf } from '../../src/api/endpoints.ts';
import { createServer } from '../../src/http/server.ts';
import { routes } from '../../src/resources/index.ts';
import type { Record_ } from '../support/client.ts';
import { describeWithRunner } from '../support/runner.ts';
import { runningBuild } from '../support/running-build.ts';
import type { User } from '../support/user.ts';

describeWithRunner('a server that keeps answers', (service, runner) => {
  /** The API alone, with a cache or without one. */
  const serverWith = (answerCache: AnswerCache) =>
    createServer({
      endpoints: endpointsOf(routes, { ...service.store, isBehindProxy: true, isDraining: () => false, answerCache }),
      log: pino({ level: 'silent' }),
      translate: () => undefined,
    });

  test('gives the same bytes as one that makes each anew, for every route, also after a change', async () => {
    const alice = await service.user();
    const named = await everythingOf(alice);
    let recalled = 0;
    const cache = createAnswerCache(service.store.db);
    const kept = serverWith({
      ...cache,
      answer(...asked) {
        const text = cache.answer(...asked);
        if (text !== undefined) recalled += 1;
        return text;
      },
    });
    const made = serverWith(noAnswerCache);
    const { email, api_key: apiKey } = alice.credentials;
    const authorization = `Basic ${Buffer.from(`${email}:${apiKey}`).toString('base64')}`;
    const asked = routes.filter(
      ({ method, streams, goesByTheClock: isNeverKept = false }) => method === 'GET' && !streams && !isNeverKept,
    );
    const ask = async (server: ReturnType<typeof serverWith>, path: string) => {
      const url = path.replaceAll(/:(\w+)/g, (_, name: string) => named[name] ?? '1');
      const { statusCode, headers, body } = await server.inject({ method: 'GET', url, headers: { authorization } });
      const { 'x-request-id': _id, date: _date, connection: _connection, ...rest } = headers;
      return { url, statusCode, headers: rest, body };
    };
    const compareAll = async (): Promise<void> => {
      for (const { path } of asked) {
        const anew = await ask(made, path);
        assert.deepEqual(await ask(kept, path), anew);
        assert.deepEqual(await ask(kept, path), anew, 'asked a second time');
      }
    };
    await compareAll();
    assert.ok(recalled >= 10, `${recalled} answers were kept`);
    await alice.put(`/projects/${named.project_id}`, { description: 'changed since' });
    await compareAll();
    await Promise.all([kept.close(), made.close()]);
  });

  /** One record of each kind, by the name that routes have for it. */
  const everythingOf = async (user: User): Promise<Record<string, string>> => {
    const { project, request, id, task } = await runningBuild(user, runner);
    await task.say('a line\n');
    await task.exit(0);
    const only = async (path: string): Promise<Record_> => {
      const [first] = (await user.get(path)).list;
      return first ?? assert.fail(`nothing at ${path}`);
    };
    const suite = await only(`/projects/${project.id}/suites`);
    const variable = await user.createVariable(project, suite);
    const strategy = await user.createStrategy(project);
    const dependency = await user.createDependency();
    const commit = await only(`/projects/${project.id}/commits`);
    return Object.fromEntries(
      Object.entries({
        project_id: project.id,
        build_request_id: request.id,
        build_id: id,
        commit_id: commit.id,
        suite_id: suite.id,
        environment_variable_id: variable.id,
        deploy_strategy_id: strategy.id,
        dependency_id: dependency.id,
      }).map(([name, value]) => [name, String(value)]),
    );
  };
});
