import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import type { Outcome } from '../../../src/shared/protocol/index.ts';
import { testsOnOne } from '../../support/databases.ts';
import type { Record_ } from '../../support/client.ts';
import { assertDestroyed, assertFields, assertNotFound, assertWrongFields } from '../../support/expect.ts';
import { Receiver, reply, type Reply } from '../../support/receiver.ts';
import { aCommit, describeWithRunner, type ScriptedRunner } from '../../support/runner.ts';
import type { Service } from '../../support/service.ts';
import { fromFork, trigger } from '../../support/triggered.ts';
import type { User } from '../../support/user.ts';
import { startOtherSender, type Delivery } from './support.ts';

const token = 'glpat-0123456789-kittiwake';
const origin = 'https://ci.example.org/headrace';
const sha = aCommit.sha;

/** How each forge wants to be told: written from what their API documentation says. */
interface Dialect {
  provider: string;
  base: string;
  repository: string;
  path: string;
  headers: Record<string, string>;
  states: Record<string, string>;
  body: (told: { state: string; context: string; description: string; address: string }) => object;
}

const states = (
  enqueued: string,
  running: string,
  passed: string,
  failed: string,
  errored: string,
  cancelled: string,
) => ({
  enqueued,
  running,
  passed,
  failed,
  timed_out: failed,
  errored,
  cancelled,
});
const likeGithub: Pick<Dialect, 'states' | 'body'> = {
  states: states('pending', 'pending', 'success', 'failure', 'error', 'error'),
  body: ({ state, context, description, address }) => ({ state, target_url: address, description, context }),
};
const likeBitbucket: Pick<Dialect, 'body'> = {
  body: ({ state, context, description, address }) => ({
    key: context.length > 40 ? createHash('sha256').update(context).digest('hex').slice(0, 40) : context,
    state,
    name: context,
    url: address,
    description,
  }),
};

const dialects: Dialect[] = [
  {
    provider: 'github',
    base: '/api/v3',
    repository: 'team/code.js',
    path: `/api/v3/repos/team/code.js/statuses/${sha}`,
    headers: {
      authorization: `Bearer ${token}`,
      accept: 'application/vnd.github+json',
      'x-github-api-version': '2022-11-28',
      'user-agent': 'Headrace',
    },
    ...likeGithub,
  },
  {
    provider: 'gitea',
    base: '/api/v1/',
    repository: 'team/code',
    path: `/api/v1/repos/team/code/statuses/${sha}`,
    headers: { authorization: `token ${token}` },
    ...likeGithub,
  },
  {
    provider: 'gitlab',
    base: '/api/v4',
    repository: 'group/below/code',
    path: `/api/v4/projects/group%2Fbelow%2Fcode/statuses/${sha}`,
    headers: { 'private-token': token },
    states: states('pending', 'running', 'success', 'failed', 'failed', 'canceled'),
    body: ({ state, context, description, address }) => ({ state, name: context, target_url: address, description }),
  },
  {
    provider: 'bitbucket',
    base: '/2.0',
    repository: 'team/code',
    path: `/2.0/repositories/team/code/commit/${sha}/statuses/build`,
    headers: { authorization: `Bearer ${token}` },
    states: states('INPROGRESS', 'INPROGRESS', 'SUCCESSFUL', 'FAILED', 'FAILED', 'STOPPED'),
    ...likeBitbucket,
  },
  {
    provider: 'bitbucket',
    base: '/context/rest/api/1.0',
    repository: '~ada/code',
    path: `/context/rest/api/latest/projects/~ada/repos/code/commits/${sha}/builds`,
    headers: { authorization: `Bearer ${token}` },
    states: states('INPROGRESS', 'INPROGRESS', 'SUCCESSFUL', 'FAILED', 'FAILED', 'FAILED'),
    ...likeBitbucket,
  },
];

interface Told {
  state: string;
  context: string;
  target_url: string;
  description: string;
}

/** A project of which a forge is told. */
class Reported {
  readonly user: User;
  readonly project: Record_;
  readonly target: Record_;

  constructor(user: User, project: Record_, target: Record_) {
    this.user = user;
    this.project = project;
    this.target = target;
  }

  static async begin(service: Service, forge: Receiver, fields: Record<string, string> = {}): Promise<Reported> {
    const user = await service.user();
    const project = await user.createProject();
    const api = `http://127.0.0.1:${forge.port}`;
    return new Reported(user, project, await user.createStatusTarget(project, { api_url: api, token, ...fields }));
  }

  get path(): string {
    return `/projects/${this.project.id}/status_targets/${this.target.id}`;
  }

  /** Oldest first, once all of them are as `fits` wants them. */
  async settled(fits: (delivery: Delivery) => boolean): Promise<(Delivery & Record_)[]> {
    for (;;) {
      const all = (await this.user.get(`${this.path}/deliveries`)).list.toReversed() as (Delivery & Record_)[];
      if (all.every(fits)) return all;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  /** Asks for the commit, and has all of its suites end like this. */
  async build(runner: ScriptedRunner, ...outcomes: Outcome[]): Promise<Record_> {
    const request = await this.user.requestBuild(this.project);
    await (await runner.take('fetch_commit')).fetched();
    for (const outcome of outcomes) await (await runner.take('run_suite')).finish(outcome);
    return request;
  }
}

const statesOf = ({ calls }: Receiver): string[] => calls.map(({ body }) => (JSON.parse(body) as Told).state);
const isOver = ({ state }: Delivery): boolean => state !== 'pending';
const passed: Outcome = { kind: 'exited', status: 0 };

const allowing = { webhook_allow: '127.0.0.0/8', base_url: `${origin}/` };

describeWithRunner(
  'statuses',
  (service, runner, database) => {
    const testOnOne = testsOnOne(database);
    for (const dialect of dialects) {
      const { provider, base, repository } = dialect;
      testOnOne(`are told to ${provider} below ${base} as it takes them, each in its turn`, async () => {
        await using forge = await Receiver.start(reply(201, '{}'));
        const api = `http://127.0.0.1:${forge.port}${base}`;
        const reported = await Reported.begin(service, forge, { provider, repository, api_url: api });
        const name = `"läuft" </b> \\ ${'x'.repeat(60)} & $(id) %0d%0aX-Evil: 1`;
        await reported.user.createSuite(reported.project, { name });
        const request = await reported.build(runner, passed);
        const again = `/projects/${reported.project.id}/build_requests/${request.id}/rerun`;
        const outcomes: Outcome[] = [
          { kind: 'exited', status: 3 },
          { kind: 'timed_out' },
          { kind: 'unfetchable', reason: 'key_refused' },
        ];
        for (const outcome of outcomes) {
          assert.equal((await reported.user.post(again)).status, 200);
          await (await runner.take('run_suite')).finish(outcome);
        }
        assert.equal((await reported.user.post(again)).status, 200);
        const cancel = `/projects/${reported.project.id}/build_requests/${request.id}/cancel`;
        assert.equal((await reported.user.post(cancel)).status, 200);
        const ended = ['passed', 'failed', 'timed_out', 'errored'].flatMap((state) => ['enqueued', 'running', state]);
        const expected = [...ended, 'enqueued', 'cancelled'];
        const calls = await forge.received(expected.length);
        const [commit] = (await reported.user.get(`/projects/${reported.project.id}/commits`)).list;
        const builds = (await reported.user.get(`/projects/${reported.project.id}/commits/${commit?.id}/builds`)).list;
        const byAttempt = builds.toSorted((a, b) => Number(a.attempt) - Number(b.attempt));
        for (const [at, state] of expected.entries()) {
          const call = calls[at];
          assert.ok(call);
          assert.equal(call.path, dialect.path);
          for (const [header, value] of Object.entries(dialect.headers)) assert.equal(call.headers[header], value);
          assert.equal(call.headers['content-type'], 'application/json; charset=utf-8');
          assert.equal(call.headers['x-evil'], undefined);
          const told = JSON.parse(call.body) as { description: string };
          const build = byAttempt[Math.floor(at / 3)];
          const address = `${origin}/ui/projects/${reported.project.id}/builds/${build?.id}`;
          const { description } = told;
          const body = dialect.body({
            state: dialect.states[state] ?? '',
            context: `headrace/${name}`,
            description,
            address,
          });
          assert.deepEqual(told, body);
          assert.ok(description.length > 5 && description.length <= 140 && description.includes('.'), description);
        }
        const deliveries = await reported.settled(isOver);
        assert.deepEqual(
          deliveries.map(({ type, state, ref, context, build_state: built }) => [type, state, ref, context, built]),
          expected.map((state) => [`build.${state}`, 'delivered', sha, `headrace/${name}`, state]),
        );
        const sentences = deliveries.map(({ description }) => String(description));
        assert.match(sentences[2] ?? '', /^Passed after \d+\.\d s\.$/);
        assert.match(sentences[5] ?? '', /^Failed with exit status 3 after \d+\.\d s\. This is attempt 2\.$/);
        assert.match(
          sentences[11] ?? '',
          /^The git host does not accept the key of the project\. This is attempt 4\.$/,
        );
      });
    }

    test('are those of all suites, and of a commit from a fork too', async () => {
      await using forge = await Receiver.start(reply(201));
      const reported = await Reported.begin(service, forge);
      for (const name of ['unit', 'lint']) await reported.user.createSuite(reported.project, { name });
      await trigger(service.store, reported.project, sha, fromFork);
      await (
        await runner.take('fetch_commit')
      ).fetched({ branches: [], branch: '', ref: 'refs/pull/7/head', defaultHead: 'kept' });
      await (await runner.take('run_suite')).exit(0);
      await (await runner.take('run_suite')).exit(1);
      const told = (await forge.received(8)).map(({ body }) => JSON.parse(body) as Told);
      const of = (suite: string) =>
        told.filter(({ context }) => context === `headrace/${suite}`).map(({ state }) => state);
      assert.deepEqual(new Set([of('unit').at(-1), of('lint').at(-1)]), new Set(['failure', 'success']));
      for (const seen of [of('unit'), of('lint')]) assert.deepEqual(seen.slice(0, 2), ['pending', 'pending']);
    });

    testOnOne('name the first test or step that failed', async () => {
      await using forge = await Receiver.start(reply(201));
      const reported = await Reported.begin(service, forge);
      const { user, project } = reported;
      const steps = { 'steps[0][name]': 'configure', 'steps[1][name]': 'compile', 'steps[2][name]': 'tidy up' };
      const commands = Object.fromEntries([0, 1, 2].map((nth) => [`steps[${nth}][command]`, 'make']));
      await user.createSuite(project, { name: 'unit', command: '', ...steps, ...commands });
      const request = await user.requestBuild(project);
      await (await runner.take('fetch_commit')).fetched();
      const stepStates = [
        { name: 'configure', state: 'passed' as const },
        { name: 'compile', state: 'failed' as const },
        { name: 'tidy up', state: 'failed' as const },
      ];
      await (await runner.take('run_suite')).exit(2, { stepStates });
      const last = async (): Promise<string> => {
        await reported.settled(isOver);
        return (JSON.parse(forge.calls.at(-1)?.body ?? '') as Told).description;
      };
      assert.match(await last(), /^The step compile failed, with exit status 2 after \d+\.\d s\.$/);

      const long = `${'x'.repeat(68)}😀${'y'.repeat(300)}`;
      for (const [name, told] of [
        ['keeps\tthe\nlevel', 'keeps the level'],
        [long, `${'x'.repeat(68)}\uFFFD…`],
      ] as const) {
        const path = `/projects/${project.id}/build_requests/${request.id}/rerun`;
        assert.equal((await user.post(path)).status, 200);
        const task = await runner.take('run_suite');
        const report = { name, class: 'Sluice', suite: '', file: '', durationMs: 1, message: '' };
        const tests = [
          { ...report, name: 'opens', state: 'passed' as const },
          { ...report, state: 'failed' as const },
          { ...report, name: 'closes', state: 'failed' as const },
        ];
        const { claim } = task.order;
        const taken = await runner.dispatch.tests(runner.self, { claim, start: 0, tests, isLast: true });
        assert.deepEqual(taken, { taken: true });
        await task.exit(1, { stepStates });
        const description = await last();
        assert.ok(description.startsWith(`The test ${told} failed, with exit status 1 after `), description);
        assert.ok(description.length <= 140 && description.isWellFormed(), description);
      }
    });

    test('are not those of an attempt that another has followed', async () => {
      await using forge = await Receiver.start(reply(201));
      const reported = await Reported.begin(service, forge);
      await reported.user.createSuite(reported.project, { name: 'unit' });
      await reported.user.requestBuild(reported.project);
      await (await runner.take('fetch_commit')).fetched();
      const first = await runner.take('run_suite');
      await reported.user.requestBuild(reported.project, sha);
      const second = await runner.take('run_suite');
      await first.exit(1); // the suite is being tried again: this is not how it stands
      await second.exit(0);
      await reported.settled(isOver);
      assert.deepEqual(statesOf(forge), ['pending', 'pending', 'pending', 'pending', 'success']);
      // One that is lost is followed by the next in the same breath.
      await reported.user.requestBuild(reported.project, sha);
      await (await runner.take('run_suite')).finish({ kind: 'lost', message: 'the machine is on fire' });
      await (await runner.take('run_suite')).exit(0);
      await forge.received(10);
      assert.ok(!statesOf(forge).includes('failure') && !statesOf(forge).includes('error'));
      assert.equal(statesOf(forge).at(-1), 'success');
    });

    test('are good of a suite that its rules leave out, unless it was built or the project wants none', async () => {
      await using forge = await Receiver.start(reply(201));
      const reported = await Reported.begin(service, forge);
      const { user, project } = reported;
      await user.createSuite(project, { name: 'unit' });
      const docs = await user.createSuite(project, { name: 'docs', 'matrix[]': 'CC=gcc,clang' });
      const rules = `/projects/${project.id}/suites/${docs.id}/rules`;
      const value = `release-${'x'.repeat(240)}`;
      const rule = { subject: 'commit.branches', operator: 'equals', value };
      const made = (await user.post(rules, rule)).record;
      const request = await reported.build(runner, passed);
      const built = ['headrace/unit pending', 'headrace/unit pending', 'headrace/unit success'];
      const inShort = (from: number): string[] =>
        forge.calls.slice(from).map(({ body }) => {
          const { context, state } = JSON.parse(body) as Told;
          return `${context} ${state}`;
        });
      await reported.settled(isOver);
      const leftOut = ['headrace/docs (CC=gcc) success', 'headrace/docs (CC=clang) success'];
      assert.deepEqual(inShort(0), [...leftOut, ...built]);
      for (const { body } of forge.calls.slice(0, 2)) {
        const { description, target_url } = JSON.parse(body) as Told;
        assert.match(description, /^left out: its rule commit\.branches equals release-x/);
        assert.ok(description.length <= 140, description);
        assert.equal(target_url, `${origin}/ui/projects/${project.id}/requests/${request.id}`);
      }

      const path = `/projects/${project.id}`;
      assert.equal((await user.put(path, { report_left_out: 'false' })).record.report_left_out, false);
      await reported.build(runner, passed);
      await reported.settled(isOver);
      assert.deepEqual(inShort(5), built);

      // What a build said of the commit stays, whatever another request leaves out.
      await user.put(path, { report_left_out: 'true' });
      assertDestroyed(await user.delete(`${rules}/${made.id}`));
      const failed: Outcome = { kind: 'exited', status: 1 };
      await reported.build(runner, failed, failed, failed);
      await user.post(rules, rule);
      await reported.build(runner, passed);
      await reported.settled(isOver);
      assert.deepEqual(inShort(8 + 9), built);
    });

    test('are no webhooks, and webhooks are no statuses', async () => {
      await using forge = await Receiver.start(reply(201));
      await using receiver = await Receiver.start();
      const reported = await Reported.begin(service, forge);
      const { user, project, target } = reported;
      await user.createSuite(project);
      const notification = await user.createNotification(project, { 'options[url]': receiver.url });
      await reported.build(runner, passed);
      const types = await receiver.types(7);
      assert.equal(types[0], 'ping');
      await forge.received(3);
      await reported.settled(isOver);
      assert.equal(forge.calls.length, 3);
      const listed = (await user.get(`/projects/${project.id}/notifications`)).list;
      assert.deepEqual(
        listed.map(({ id }) => id),
        [notification.id],
      );
      const other = `/projects/${project.id}/notifications/${target.id}`;
      for (const path of [other, `${other}/deliveries`]) assertNotFound(await user.get(path));
      assertNotFound(await user.put(other, { 'options[url]': receiver.url }));
      assertNotFound(await user.delete(other));
      const [delivery] = await reported.settled(isOver);
      assertNotFound(await user.post(`${other}/deliveries/${delivery?.id}/redeliver`));
      assertNotFound(await user.get(`/projects/${project.id}/status_targets/${notification.id}`));
      assertNotFound(await user.delete(`/projects/${project.id}/status_targets/${notification.id}`));
      const elsewhere = await user.createProject();
      assertNotFound(await user.get(`/projects/${elsewhere.id}/status_targets/${target.id}`));
    });

    test('are tried again while the forge does not take them, before anything newer', async () => {
      const elsewhere = await Receiver.start();
      const troubles: Reply[] = [
        reply(500, 'not now'),
        reply(429, 'slow down', { 'retry-after': '1' }),
        reply(307, '', { location: elsewhere.url }),
        (response) => void response.destroy(),
        () => {}, // says nothing at all
        reply(401, 'bad credentials'),
        reply(404, '{"message": "Not Found"}'),
      ];
      await using forge = await Receiver.start((...call) => (troubles.shift() ?? reply(201))(...call));
      const reported = await Reported.begin(service, forge);
      await reported.user.createSuite(reported.project, { name: 'unit' });
      await reported.build(runner, passed);
      const [first, ...rest] = await reported.settled(isOver);
      assert.deepEqual(
        first?.attempts.map(({ status, error }) => status ?? error),
        [500, 429, 307, 'the connection was closed without an answer', 'no answer within 3 seconds', 401, 404, 201],
      );
      assert.equal(new Set(forge.calls.slice(0, 8).map(({ body }) => body)).size, 1);
      assert.deepEqual(statesOf(forge).slice(7), ['pending', 'pending', 'success']);
      assert.deepEqual(
        rest.map(({ attempts }) => attempts.length),
        [1, 1],
      );
      assert.equal(elsewhere.calls.length, 0, 'a token goes to nobody else');
      await elsewhere[Symbol.asyncDispose]();
    });

    test('that a forge refuses for good hold up no others', async () => {
      for (const [provider, status, answer] of [
        ['github', 422, '{"message": "No commit found for SHA"}'],
        ['gitlab', 404, '{"message": "404 Commit Not Found"}'],
        ['bitbucket', 400, '{"type": "error"}'],
      ] as const) {
        const answers = [reply(status, answer)];
        await using forge = await Receiver.start((...call) => (answers.shift() ?? reply(201))(...call));
        const reported = await Reported.begin(service, forge, { provider });
        await reported.user.createSuite(reported.project, { name: 'unit' });
        await reported.build(runner, passed);
        const deliveries = await reported.settled(isOver);
        assert.deepEqual(
          deliveries.map(({ state, attempts }) => [state, attempts.length]),
          [
            ['failed', 1],
            ['delivered', 1],
            ['delivered', 1],
          ],
        );
      }
    });

    test('that a forge answers with 500 are tried three times, and Retry-After is waited for', async () => {
      const answers = [reply(500, 'oh'), reply(500, 'oh'), reply(500, 'oh'), reply(429, '', { 'retry-after': '1' })];
      await using forge = await Receiver.start((...call) => (answers.shift() ?? reply(201, '{}'))(...call));
      const reported = await Reported.begin(service, forge);
      await reported.user.createSuite(reported.project);
      await reported.build(runner, passed);
      const [first, second] = await reported.settled(isOver);
      assert.deepEqual([first?.state, first?.attempts.length], ['failed', 3]);
      assert.deepEqual([second?.state, second?.attempts.length], ['delivered', 2]);
      const [limited, again] = forge.calls.slice(3);
      assert.ok(limited && again && again.at - limited.at >= 1000, 'not before it was asked for');
    });

    test('that GitLab has already are not told it again', async () => {
      const message = 'Cannot transition status via :enqueue from :pending (Reason(s): Status cannot transition)';
      const answers = [reply(201), reply(400, JSON.stringify({ message }))];
      await using forge = await Receiver.start((...call) => (answers.shift() ?? reply(201))(...call));
      const reported = await Reported.begin(service, forge, { provider: 'gitlab' });
      await reported.user.createSuite(reported.project, { name: 'unit' });
      await reported.build(runner, passed);
      const deliveries = await reported.settled(isOver);
      assert.deepEqual(
        deliveries.map(({ state, attempts }) => [state, attempts[0]?.status]),
        [
          ['delivered', 201],
          ['delivered', 400],
          ['delivered', 201],
        ],
      );
    });

    test('come in order from two servers at once', async (t) => {
      await startOtherSender(t, service, origin);
      await using forge = await Receiver.start(reply(201));
      const reported = await Reported.begin(service, forge, { provider: 'gitlab' });
      const many = 20;
      await reported.user.createSuite(reported.project, { name: 'unit' });
      await reported.build(runner, passed);
      for (let time = 1; time < many; time += 1) {
        await reported.user.requestBuild(reported.project, sha);
        await (await runner.take('run_suite')).exit(time % 2);
      }
      await forge.received(3 * many);
      const expected = Array.from({ length: many }, (_, time) => [
        'pending',
        'running',
        time % 2 ? 'failed' : 'success',
      ]);
      assert.deepEqual(statesOf(forge), expected.flat());
    });

    test('end with their target, and with their project', async () => {
      const { read } = service.store.db;
      for (const whole of [false, true]) {
        await using forge = await Receiver.start(reply(503));
        const reported = await Reported.begin(service, forge);
        await reported.user.createSuite(reported.project);
        await reported.build(runner, passed);
        await forge.received(1);
        const path = whole ? `/projects/${reported.project.id}` : reported.path;
        assertDestroyed(await reported.user.delete(path));
        const { id } = reported.target;
        assert.deepEqual(await read.selectFrom('jobs').select('id').where('subject_id', '=', id).execute(), []);
        const left = read.selectFrom('webhook_deliveries').select('id').where('notification_id', '=', id);
        assert.deepEqual(await left.execute(), []);
        assertNotFound(await reported.user.get(reported.path));
      }
    });

    testOnOne('never give away the token, also to a forge that says it back [promise: forge-tokens]', async () => {
      const spoken = [
        token,
        Buffer.from(`x:${token}`).toString('base64'),
        JSON.stringify({ sent: { 'PRIVATE-TOKEN': token } }),
        encodeURIComponent(token),
        // Cut off in the middle of it: what is kept of an answer ends after a kilobyte.
        `${'-'.repeat(1010)}${token}${token}`,
      ];
      const answers = spoken.map((text) => reply(502, text));
      await using forge = await Receiver.start((...call) => (answers.shift() ?? reply(201, token))(...call));
      const reported = await Reported.begin(service, forge, { provider: 'gitlab' });
      assertFields(reported.target, 'id id_str project_id project_id_str provider api_url repository');
      await reported.user.createSuite(reported.project);
      await reported.build(runner, passed);
      const deliveries = await reported.settled(isOver);
      assert.equal(deliveries[0]?.attempts.length, spoken.length + 1);
      const { user, project } = reported;
      const { db } = service.store;
      const rows = await Promise.all([
        db.read.selectFrom('notifications').selectAll().execute(),
        db.read.selectFrom('webhook_deliveries').selectAll().execute(),
        db.read.selectFrom('webhook_attempts').selectAll().execute(),
        db.read.selectFrom('audit_entries').selectAll().execute(),
      ]);
      const seen = [
        service.log,
        (await user.get(`/projects/${project.id}/status_targets`)).text,
        (await user.get(reported.path)).text,
        (await user.get(`${reported.path}/deliveries`)).text,
        JSON.stringify(rows, (_, value: unknown) => (typeof value === 'bigint' ? String(value) : value)),
      ].join('\n');
      for (const part of [token, 'kittiwake', 'glpat-01234', Buffer.from(token).toString('base64').slice(4, 20)])
        assert.ok(!seen.includes(part), part);
      assert.ok(seen.includes('[masked]'), 'what was said is kept, but for the token');
    });

    testOnOne('go to Bitbucket with the address of a person where the token has one', async () => {
      await using forge = await Receiver.start(reply(500, `you are ada@example.org:${token}`));
      const reported = await Reported.begin(service, forge, {
        provider: 'bitbucket',
        token: `ada@example.org:${token}`,
      });
      await reported.user.createSuite(reported.project);
      await reported.build(runner, passed);
      const [call] = await forge.received(1);
      const basic = Buffer.from(`ada@example.org:${token}`).toString('base64');
      assert.equal(call?.headers.authorization, `Basic ${basic}`);
      const [first] = await reported.settled(({ attempts, type }) => type !== 'build.enqueued' || attempts.length > 0);
      assert.ok(!first?.attempts[0]?.answer.includes('kittiwake'));
      assertDestroyed(await reported.user.delete(reported.path));
    });

    testOnOne('are not told to nobody in particular: every field is checked', async () => {
      const user = await service.user();
      const project = await user.createProject();
      const path = `/projects/${project.id}/status_targets`;
      assertWrongFields(await user.post(path), { provider: 'is_blank', repository: 'is_blank', token: 'is_blank' });
      const good = { provider: 'github', repository: 'team/code', token };
      const wrong: Record<string, string[]> = {
        provider: ['generic', 'GitHub', 'webhook'],
        api_url: ['ftp://x/', 'api.github.com', 'https://u:p@x/', 'https://x/?a=b', 'https://x/#y', 'javascript:1'],
        repository: [
          'code',
          '17',
          'a/b/c',
          '../..',
          'a/..',
          './a',
          'a/b?x',
          'a b/c',
          '/a/b',
          'a/b/',
          'a/%2e%2e',
          'a//b',
        ],
        token: ['two words', 'new\nline', 'tok\u00e9n', 'tok\ten'],
      };
      for (const [field, values] of Object.entries(wrong)) {
        for (const value of values)
          assertWrongFields(await user.post(path, { ...good, [field]: value }), { [field]: 'invalid_format' });
      }
      const apis: Record<string, string> = {
        github: 'https://api.github.com',
        gitlab: 'https://gitlab.com/api/v4',
        gitea: 'https://gitea.com/api/v1',
        bitbucket: 'https://api.bitbucket.org/2.0',
      };
      for (const [provider, api] of Object.entries(apis)) {
        const { record } = await user.post(path, { ...good, provider });
        assert.deepEqual([record.provider, record.api_url, record.repository], [provider, api, 'team/code']);
      }
      const byNumber = await user.post(path, { ...good, provider: 'gitlab', repository: '4711' });
      assert.equal(byNumber.status, 201);
      const listed = (await user.get(path)).list;
      assert.deepEqual(
        listed.map(({ provider }) => provider),
        ['github', 'gitlab', 'gitea', 'bitbucket', 'gitlab'],
      );
      const stranger = await service.user();
      assertNotFound(await stranger.post(path, good));
      assertDestroyed(await user.delete(`${path}/${byNumber.record.id}`));
    });
  },
  {
    settings: allowing,
    webhooks: { retryPolicy: { answerWithin: 3000, firstWait: 20, longestWait: 40 } },
  },
);

describeWithRunner('statuses without leave', (service, runner) => {
  test('are not told to this machine or its network [promise: webhook-addresses]', async () => {
    await using forge = await Receiver.start(reply(201));
    for (const host of ['127.0.0.1', 'localhost', '[::ffff:127.0.0.1]', '169.254.169.254']) {
      const reported = await Reported.begin(service, forge, { api_url: `http://${host}:${forge.port}` });
      await reported.user.createSuite(reported.project);
      await reported.build(runner, passed);
      const [first] = await reported.settled(({ type, attempts }) => type !== 'build.enqueued' || attempts.length > 0);
      assert.deepEqual(
        [first?.state, first?.attempts[0]?.status, first?.attempts[0]?.error],
        ['pending', null, 'the address is not public, and the operator of this service has not allowed it'],
      );
      assertDestroyed(await reported.user.delete(reported.path));
    }
    assert.equal(forge.calls.length, 0);
  });
});
