import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import type { Trigger } from '../../../src/server/lifecycle/requests.ts';
import type { CommitReport, SuiteOrder } from '../../../src/shared/protocol/index.ts';
import type { Record_ } from '../../support/client.ts';
import { assertWrongFields } from '../../support/expect.ts';
import { Brought, pull, push } from '../../support/joined.ts';
import { describeWithRunner, type Task } from '../../support/runner.ts';
import { fromFork, trigger } from '../../support/triggered.ts';
import type { User } from '../../support/user.ts';
import { verify } from '../../support/verifier.ts';

const clock = { ahead: 0 };
const now = (): number => Date.now() + clock.ahead;

let number = 0;
const freshSha = (): string => (number += 1).toString(16).padStart(40, 'd');
const onMain = { ref: 'refs/heads/main', branches: ['main'], tags: [], branch: 'main' };

const twoTokens = {
  'id_tokens[0][variable]': 'CLOUD_TOKEN',
  'id_tokens[0][audience]': 'sts.amazonaws.com',
  'id_tokens[1][variable]': 'VAULT_TOKEN',
  'id_tokens[1][audience]': 'https://vault.example.org',
};

describeWithRunner(
  'tokens of builds',
  (service, runner) => {
    let alice: User;
    let project: Record_;
    let path: string;
    let suite: Record_;
    before(async () => {
      alice = await service.user();
      project = await alice.createProject({ name: 'shop' });
      path = `/projects/${project.id}`;
      const command = 'deploy --with "$CLOUD_TOKEN"';
      suite = await alice.createSuite(project, { name: 'ship', command, timeout: '600', ...twoTokens });
      await alice.createVariable(project, suite, { name: 'VAULT_TOKEN', content: 'of-the-variable' });
    });

    interface Asked {
      by?: string;
      as?: Partial<Trigger>;
      found?: Partial<CommitReport>;
    }
    const begin = async ({ by, as, found = onMain }: Asked): Promise<{ task: Task<SuiteOrder>; sha: string }> => {
      const sha = freshSha();
      if (as) await trigger(service.store, project, sha, as);
      else await alice.requestBuild(project, by === 'SHA' ? sha : by);
      await (await runner.take('fetch_commit')).fetched({ ...found, sha });
      return { task: await runner.take('run_suite'), sha };
    };
    const claimsIn = ({ order }: Task<SuiteOrder>) =>
      verify(service.api, order.work.tokens?.['CLOUD_TOKEN'] ?? '', { audience: 'sts.amazonaws.com' });

    test('say which build it is, each to its audience, and can be verified by others', async () => {
      const beganAt = Math.floor(Date.now() / 1000);
      const { task, sha } = await begin({ by: 'main' });
      const { tokens = {}, environment, secrets } = task.order.work;
      const { iat = 0, jti, ...claims } = await claimsIn(task);
      assert.ok(iat >= beganAt && iat <= Date.now() / 1000);
      assert.match(jti ?? '', /^[\da-f-]{36}$/);
      const build = environment['HEADRACE_BUILD_ID'];
      const [request] = (await alice.get(`${path}/build_requests`)).list;
      // The operator allows a build this much, which is less than the suite asks for.
      assert.ok(Math.abs((claims.exp ?? 0) - iat - 300) <= 1);
      assert.deepEqual(claims, {
        iss: service.address,
        sub: `project:${project.id}:ref:refs/heads/main`,
        aud: 'sts.amazonaws.com',
        nbf: iat,
        exp: claims.exp,
        project_id: String(project.id),
        project: 'shop',
        organisation: '',
        suite: 'ship',
        build_id: build,
        request_id: String(request?.id),
        sha,
        ref: 'refs/heads/main',
        event: 'manual',
        deploy_strategy: '',
        runner: '',
      });
      const vault = await verify(service.api, tokens['VAULT_TOKEN'] ?? '', { audience: 'https://vault.example.org' });
      assert.notEqual(vault.jti, jti);
      assert.equal(vault.sub, claims.sub);
      await assert.rejects(
        verify(service.api, tokens['VAULT_TOKEN'] ?? '', { audience: 'sts.amazonaws.com' }),
        /audience/,
      );
      const [head, body = '', signature] = (tokens['CLOUD_TOKEN'] ?? '').split('.');
      const other = Buffer.from(Buffer.from(body, 'base64url').toString().replace('heads/main', 'heads/evil'));
      await assert.rejects(verify(service.api, [head, other.toString('base64url'), signature].join('.')), /signature/);
      // No other part of the order has them, and no table.
      assert.equal(environment['CLOUD_TOKEN'], undefined);
      assert.deepEqual(secrets, ['of-the-variable']);
      await task.exit(0);
      const again = await alice.post(`${path}/builds/${build}/restart`);
      assert.equal(again.status, 201);
      const second = await runner.take('run_suite');
      const { jti: otherJti, build_id: otherBuild } = await claimsIn(second);
      assert.notEqual(otherJti, jti);
      assert.notEqual(otherBuild, build);
      await second.exit(0);
    });

    const subjects: Record<string, Asked & { sub: (sha: string) => string; ref: string; event: string }> = {
      'a branch by its short name': {
        by: 'main',
        sub: () => 'ref:refs/heads/main',
        ref: 'refs/heads/main',
        event: 'manual',
      },
      'the default branch': { by: 'HEAD', sub: () => 'ref:refs/heads/main', ref: 'refs/heads/main', event: 'manual' },
      'a tag that is called main': {
        by: 'main',
        found: { ref: 'refs/tags/main', branches: ['main'], tags: ['main'], branch: 'main' },
        sub: () => 'ref:refs/tags/main',
        ref: 'refs/tags/main',
        event: 'manual',
      },
      'a SHA that main has': {
        by: 'SHA',
        found: { ...onMain, ref: null },
        sub: (sha) => `sha:${sha}`,
        ref: '',
        event: 'manual',
      },
      'a push': { as: {}, sub: () => 'ref:refs/heads/main', ref: 'refs/heads/main', event: 'push' },
      'a push that a forge says was to main, of a commit that is not there': {
        as: {},
        found: { ref: null, branches: ['scratch'], tags: [], branch: 'scratch' },
        sub: (sha) => `sha:${sha}`,
        ref: '',
        event: 'push',
      },
      'a pull request': {
        as: { event: 'pull_request', pullRequest: 3n, fetchRef: 'refs/pull/3/head', group: '' },
        found: { ref: 'refs/pull/3/head', branches: ['main'], tags: [], branch: 'main' },
        sub: () => 'pull_request',
        ref: 'refs/pull/3/head',
        event: 'pull_request',
      },
      'a pull request that a forge says is main': {
        as: { event: 'pull_request', pullRequest: 4n, fetchRef: 'refs/heads/main', group: '' },
        sub: () => 'pull_request',
        ref: 'refs/heads/main',
        event: 'pull_request',
      },
    };
    for (const [what, { sub, ref, event, ...asked }] of Object.entries(subjects))
      test(`name ${what} as it was fetched`, async () => {
        const { task, sha } = await begin(asked);
        const claims = await claimsIn(task);
        assert.equal(claims.sub, `project:${project.id}:${sub(sha)}`);
        assert.deepEqual([claims['ref'], claims['event'], claims['sha']], [ref, event, sha]);
        await task.exit(0);
      });

    test('are never for forks [promise: build-identity]', async () => {
      const found = { ref: 'refs/pull/7/head', branches: [], tags: [], branch: null };
      const forks: Asked[] = [
        { as: fromFork, found },
        // A fork that calls its branch main, and a commit that nothing but a pull request leads to.
        { as: { fromFork: true } },
        { by: 'SHA', found: { ...found, ref: null } },
        { by: 'refs/pull/7/head', found },
      ];
      for (const fork of forks) {
        const { task } = await begin(fork);
        assert.equal(task.order.work.tokens, undefined);
        const { HEADRACE_BUILD_ID: build } = task.order.work.environment;
        await task.exit(0);
        const { text } = await alice.get(`${path}/builds/${build}/log.txt`);
        assert.match(text, /^This build comes from a fork, so it does not get: CLOUD_TOKEN\.$/m);
      }
    });

    test('end with the build’s limit, an hour after its start at the latest', async () => {
      const long = await alice.createSuite(project, { name: 'short', timeout: '60', ...twoTokens, manual: 'true' });
      await alice.post(`${path}/build_requests`, { commit_ref: 'main', 'suites[]': String(long.id) });
      await (await runner.take('fetch_commit')).fetched({ ...onMain, sha: freshSha() });
      const task = await runner.take('run_suite');
      const { exp = 0, iat = 0 } = await claimsIn(task);
      assert.ok(exp - iat <= 60 && exp - iat >= 58);
      await task.exit(0);
    });

    test('are fields of a suite that are checked', async () => {
      const at = `${path}/suites`;
      const wrong = await alice.post(at, {
        name: 'wrong',
        command: 'true',
        'id_tokens[0][variable]': 'A',
        'id_tokens[0][audience]': 'two words',
        'id_tokens[1][variable]': 'HEADRACE_X',
        'id_tokens[1][audience]': 'x',
        'id_tokens[2][variable]': 'B',
      });
      assertWrongFields(wrong, {
        'id_tokens[0][audience]': 'invalid_format',
        'id_tokens[1][variable]': 'is_reserved',
        'id_tokens[2][audience]': 'is_blank',
      });
      const twice = { 'id_tokens[0][variable]': 'A', 'id_tokens[1][variable]': 'A' };
      const audiences = { 'id_tokens[0][audience]': 'x', 'id_tokens[1][audience]': 'y' };
      assertWrongFields(await alice.post(at, { name: 'wrong', command: 'true', ...twice, ...audiences }), {
        'id_tokens[1][variable]': 'already_exists',
      });
      const many = Array.from({ length: 11 }, (_, of) => [
        [`id_tokens[${of}][variable]`, `T${of}`],
        [`id_tokens[${of}][audience]`, 'x'],
      ]).flat() as [string, string][];
      assertWrongFields(await alice.post(at, { name: 'wrong', command: 'true', ...Object.fromEntries(many) }), {
        id_tokens: 'invalid_format',
      });
      assert.deepEqual((await alice.get(`${at}/${suite.id}`)).record.id_tokens, [
        { variable: 'CLOUD_TOKEN', audience: 'sts.amazonaws.com' },
        { variable: 'VAULT_TOKEN', audience: 'https://vault.example.org' },
      ]);
    });

    test('are given by the owner alone, who also decides what runs with them [promise: build-identity]', async () => {
      const bob = await service.user();
      await alice.invite(project, bob);
      const at = `${path}/suites`;
      const refused = async (answer: Promise<{ status: number }>) => assert.equal((await answer).status, 401);
      await refused(bob.post(at, { name: 'mine', command: 'steal', ...twoTokens }));
      await refused(bob.put(`${at}/${suite.id}`, { command: 'steal' }));
      await refused(bob.put(`${at}/${suite.id}`, { 'id_tokens[0][variable]': 'A', 'id_tokens[0][audience]': 'mine' }));
      assert.equal((await bob.put(`${at}/${suite.id}`, { description: 'Ships.' })).status, 200);
      const giver = await alice.createSuite(project, { name: 'giver', manual: 'true' });
      const taker = { name: 'taker', manual: 'true', 'needs[]': String(giver.id), files_from_id: String(giver.id) };
      await alice.createSuite(project, { ...taker, ...twoTokens });
      await refused(bob.put(`${at}/${giver.id}`, { command: 'leave a trap' }));
    });

    test('make a push and a pull request build the suite each, and suites with its files', async () => {
      const brought = await Brought.begin(service, runner, ['unit']);
      const own = `${brought.path}/suites`;
      const sign = await brought.user.createSuite(brought.project, { name: 'sign', ...twoTokens });
      await brought.user.post(own, {
        name: 'publish',
        command: 'true',
        'needs[]': String(sign.id),
        files_from_id: String(sign.id),
      });
      const [first, second] = [await brought.bring(push), await brought.bring(pull)];
      await brought.fetched();
      await brought.fetched({ ref: 'refs/pull/7/head' });
      const subs: string[] = [];
      for (const name of ['unit', 'sign', 'sign'].toSorted()) {
        const task = await runner.take('run_suite');
        const { environment, tokens } = task.order.work;
        if (environment['HEADRACE_SUITE'] === 'sign')
          subs.push((await verify(service.api, tokens?.['CLOUD_TOKEN'] ?? '')).sub ?? '');
        else assert.equal(environment['HEADRACE_SUITE'], 'unit', name);
        await task.exit(1);
      }
      const { id } = brought.project;
      assert.deepEqual(subs.toSorted(), [`project:${id}:pull_request`, `project:${id}:ref:refs/heads/topic`]);
      const ran = async (request: bigint) =>
        (await brought.ran(request)).map((one) => one.split(' ')[0] ?? '').toSorted();
      assert.deepEqual(await ran(first), ['publish', 'sign', 'unit']);
      assert.deepEqual(await ran(second), ['publish', 'sign']);
    });

    test('are believed after a change of the key, and what tells that is public and may be cached', async () => {
      const { task } = await begin({ by: 'main' });
      const before_ = await claimsIn(task);
      await task.exit(0);
      for (const document of ['openid-configuration', 'jwks.json']) {
        const { status, headers } = await service.api.get(`/.well-known/${document}`);
        assert.equal(status, 200);
        assert.equal(headers['cache-control'], 'public, max-age=300');
        assert.match(String(headers['content-type']), /^application\/json/);
      }
      assert.equal(before_.iss, service.address);
    });
  },
  { now, timeoutSeconds: 300 },
);
