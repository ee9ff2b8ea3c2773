import assert from 'node:assert/strict';
import { afterEach, test, type TestContext } from 'node:test';
import { AtPull } from '../../support/at-pull.ts';
import { pull, push, sha } from '../../support/joined.ts';
import { describeWithRunnerOnOne } from '../../support/runner.ts';
import { fromFork } from '../../support/triggered.ts';
import { parseCommand } from '../../../src/server/lifecycle/forge-deeds.ts';
import type { Dialect } from '../../support/fake-forge.ts';

const events: Record<Dialect, string> = {
  github: 'issue_comment',
  gitea: 'pull_request_comment',
  gitlab: 'note_events',
  cloud: 'pullrequest:comment_created',
  center: 'pr:comment:added',
};
const thumbs: Record<Dialect, string[]> = {
  github: ['+1'],
  gitea: ['+1'],
  gitlab: ['thumbsup'],
  cloud: [],
  center: ['thumbsup'],
};
const other = 'facade'.padEnd(40, '1');
const theirs = { ...fromFork, fetchRef: 'refs/pull/7/head' };
const foreign = { sha: other, branches: [], branch: null, ref: 'refs/pull/7/head' };

describeWithRunnerOnOne(
  'commands in comments',
  (service, runner) => {
    const begin = (
      t: TestContext,
      dialect: Dialect = 'github',
      fields: Record<string, string> = {},
      suites = ['unit'],
    ) => AtPull.at(t, [service, runner], dialect, suites, { comment_commands: 'true', ...fields });
    afterEach(async () => {
      // What a failed test left would be in the way of the next.
      await service.store.db.transaction((trx) => trx.deleteFrom('jobs').where('kind', '!=', 'deliver').execute());
    });
    const ran = (at: AtPull, id: bigint) => at.ran(id);

    for (const dialect of ['github', 'gitlab', 'gitea', 'cloud', 'center'] as const)
      test(`${dialect}: of those who may push are obeyed, and others learn why not, if they are known`, async (t) => {
        const at = await begin(t, dialect, { comment_commands: 'false' });
        assert.ok(!at.repository.hooks[0]?.events.includes(events[dialect]));
        assert.equal((await at.comment('/retest')).outcome, 'ignored');
        await at.user.put(at.path, { comment_commands: 'true' });
        const [hook] = (await at.user.get(`${at.path}/hooks`)).list;
        assert.deepEqual(hook?.events, ['push', 'tag', 'pull_request', 'comment']);
        while (!at.repository.hooks.some((one) => one.events.includes(events[dialect])))
          await new Promise((resolve) => setTimeout(resolve, 10));
        assert.equal(at.repository.hooks.length, 1, 'no second hook');

        const id = await at.built(1);
        const { outcome, build_request_id: request } = await at.comment('/retest \r\nas it is flaky, @team');
        assert.deepEqual([outcome, request], ['command', null]);
        assert.deepEqual(
          (await at.told()).map(({ type, state, context }) => [type, state, context]),
          [
            ['comment.command', 'delivered', '/retest'],
            ['comment.answer', 'delivered', 'answer to /retest'],
          ],
        );
        assert.deepEqual(await ran(at, id), ['unit 1 failed', 'unit 2 enqueued']);
        assert.deepEqual(at.reactionsTo('/retest \r\nas it is flaky, @team'), thumbs[dialect]);
        const [done = ''] = at.texts;
        if (dialect === 'cloud') assert.match(done, /^Headrace obeyed `\/retest`\.\n/);
        else assert.deepEqual(at.texts, []);

        await at.comment('/cancel', 'rita');
        await at.told();
        await at.comment('/cancel', 'mallory');
        const [, , refused = '', toRita, stranger = ''] = await at.errors();
        assert.match(refused, /^Nothing was done: Only users who may push/);
        assert.equal(toRita, '');
        assert.match(stranger, /^Nothing was done: the forge does not know mallory in the repository\.$/);
        assert.equal((await at.request(id)).build_state, 'building');
        const why = at.texts.at(-1) ?? '';
        assert.match(why, /^Headrace did not obey `\/cancel`\. Only users who may push/);
        assert.equal(at.texts.length, dialect === 'cloud' ? 2 : 1);
        assert.deepEqual(at.reactionsTo('/cancel'), []);

        // The service's own comments are never commands.
        for (const text of at.texts) assert.equal((await at.comment(text, 'ada')).outcome, 'ignored');
        assert.equal((await at.comment('/cancel', 'ada')).outcome, 'command', 'whose token it is');
        await at.told();
        assert.deepEqual(await ran(at, id), ['unit 1 failed', 'unit 2 cancelled']);
        await runner.assertIdle();
      });

    test('are the whole first line of a new comment on a pull request, and count once', async (t) => {
      const at = await begin(t);
      const id = await at.built(1);
      const outcome = async (text: string, more = {}) => (await at.comment(text, 'grace', more)).outcome;
      for (const text of [
        'retest',
        ' /retest',
        '/retests',
        '/RETEST',
        'So:\n/retest',
        '> /retest',
        '/deploy',
        '/cancel it',
      ])
        assert.equal(await outcome(text), 'ignored', text);
      assert.equal(await outcome('/retest', { action: 'edited' }), 'ignored');
      assert.equal(await outcome('/retest', { action: 'deleted' }), 'ignored');
      assert.equal(await outcome('/retest', { isIssue: true }), 'ignored');
      assert.equal(parseCommand(`/retest ${'a'.repeat(300)}`), undefined);
      assert.equal(parseCommand('/retest un\u202eit'), undefined);
      assert.deepEqual(await at.told(), []);

      const { id: comment } = await at.write('/retest unit', 'grace');
      const sent = { text: '/retest unit', id: comment, author: 'grace', authorId: 8 };
      const first = await at.send(sent);
      const again = await at.send(sent); // under another identifier
      assert.deepEqual([again.outcome, again.delivery_id], ['command', first.delivery_id]);
      const [hook] = (await at.user.get(`${at.path}/hooks`)).list;
      await at.user.post(`${at.path}/hooks/${hook?.id}/deliveries/${String(first.delivery_id)}/replay`);
      assert.equal((await at.told()).length, 2);
      assert.deepEqual(await ran(at, id), ['unit 1 failed', 'unit 2 enqueued']);
      await at.comment('/retest unit');
      await at.comment('/retest no such suite');
      const [busy, none] = (await at.told(), at.texts);
      assert.match(busy ?? '', /The newest build request is still under way\./);
      assert.match(none ?? '', /has no suite of that name\./);
      for (const task of (await at.take(1)).values()) await task.exit(0);
    });

    test('need a clear answer of the forge, which may be away, lie, or know the account by another name', async (t) => {
      const at = await begin(t);
      const id = await at.built(1);
      await at.told(); // the statuses
      const isAboutRights = (path: string): boolean => path.includes('/collaborators/');
      const lies = [
        () => ({ status: 503 }),
        () => ({ status: 429, headers: { 'retry-after': '1' } }),
        () => ({ status: 403, body: { message: 'Resource not accessible' } }),
        () => ({ status: 302, headers: { location: 'http://127.0.0.1:1/' } }),
        () => ({ status: 200, body: 'admin' }),
        () => ({ status: 200, body: { permission: 'admin' } }),
        () => ({ status: 200, body: { permission: 'admin', user: null } }),
        () => ({ status: 200, body: { permission: ['admin'], user: { id: 8 } } }),
        // Somebody else has the name by now.
        () => ({ status: 200, body: { permission: 'admin', user: { id: 81, login: 'grace' } } }),
      ];
      for (const lie of lies) {
        at.forge.interfere = ({ path }) => (isAboutRights(path) ? lie() : undefined);
        const before = at.forge.calls.length;
        assert.equal((await at.comment('/retest', 'grace', { author: 'grace', authorId: 8 })).outcome, 'command');
        const errors = await at.errors();
        assert.match(errors.at(-1) ?? '', /^Nothing was done: /);
        assert.equal(at.forge.calls.length - before, 1, 'asked once, and told nothing');
      }
      at.forge.interfere = () => undefined;
      assert.deepEqual(await ran(at, id), ['unit 1 failed']);
      assert.deepEqual(at.texts, []);

      // The answer is another matter: it is given once the forge is there again, and once.
      let calls = 0;
      at.forge.interfere = ({ method, path }, response) => {
        if (method !== 'POST' || !path.endsWith('/issues/7/comments')) return undefined;
        calls += 1;
        if (calls > 1) return undefined;
        at.pull.comments.push({ id: 1, author: 'ada', text: lost, at: Date.now(), version: 0, reactions: [] });
        response.destroy(); // it was written, and the response is lost
        return 'answered';
      };
      const { id: comment } = await at.write('/approve', 'rita');
      const lost = `Headrace did not obey.\n\n[//]: # (headrace ${comment})`;
      await at.send({ text: '/approve', id: comment, author: 'rita', authorId: 9 });
      await at.told();
      assert.deepEqual([calls, at.texts], [1, [lost]]);
    });

    test('approve a fork at the head that the forge tells, and answer no approval of a suite', async (t) => {
      const at = await begin(t, 'github', { fork_builds: 'approval' }, []);
      await at.user.createSuite(at.project, { name: 'unit', approval: 'true' });
      const id = await at.bring(theirs, other);
      const why = async (text: string): Promise<string> => {
        await at.comment(text);
        await at.told();
        return at.texts.at(-1) ?? '';
      };
      assert.match(await why('/approve'), /The head of the pull request is not the commit/, 'it has moved on');
      at.pull.head = other;
      assert.match(await why(`/approve ${sha}`), /of another commit than that SHA/);
      assert.match(await why(`/approve ${other.slice(0, 12)}`), /Write the whole SHA/);
      at.forge.interfere = ({ path }) => (path.endsWith('/pulls/7') ? { status: 502 } : undefined);
      const { length } = at.texts;
      await at.comment('/approve');
      assert.match((await at.errors()).at(-1) ?? '', /^Nothing was done: The forge answered 502/);
      at.forge.interfere = () => undefined;
      assert.equal(at.texts.length, length);
      assert.equal((await at.request(id)).build_state, 'waiting_for_approval');

      await at.comment(`/approve ${other.toUpperCase()}`);
      await at.told();
      assert.deepEqual(at.reactionsTo(`/approve ${other.toUpperCase()}`), ['+1']);
      await at.fetched(foreign);
      assert.deepEqual(await ran(at, id), ['unit 1 waiting_for_approval']);
      assert.match(await why('/approve'), /waits for no approval/);
      assert.deepEqual(await ran(at, id), ['unit 1 waiting_for_approval'], 'that of the suite is for users here');
      const entries = service.store.db.read.selectFrom('audit_entries').selectAll().where('subject_id', '=', id);
      assert.deepEqual(
        (await entries.execute()).map((one) => [one.action, one.via, one.actor_id, JSON.parse(one.details)]),
        [['build_request.approved', 'forge', null, { login: 'grace', pull_request: '7' }]],
      );
    });

    test('deploy the head within the limits of the strategy, and never that of a fork', async (t) => {
      const at = await begin(t);
      const ship = {
        strategy_type: 'git',
        'options[repository_url]': 'git@example.org:live.git',
        'options[local_branch]': 'topic',
        'options[remote_branch]': 'live',
      };
      for (const more of [
        { name: 'ship it', approval: 'true' },
        { name: 'main only', 'refs[]': 'main' },
      ]) {
        const made = await at.user.post(`${at.path}/deploy_strategies`, { ...ship, ...more });
        assert.equal(made.status, 201, made.text);
      }
      const why = async (text: string): Promise<string> => {
        await at.comment(text);
        await at.told();
        return at.texts.at(-1) ?? '';
      };
      const deploys = async () => (await at.user.get(`${at.path}/deploys`)).list.map(({ state }) => state);
      assert.match(await why('/deploy ship it'), /No build request for this pull request exists/);
      await at.built(0);
      assert.match(await why('/deploy no such'), /no deploy strategy of that name/);
      assert.match(await why('/deploy main only'), /limited to other refs/);
      assert.match(await why(`/deploy ship it ${other}`), /another commit than that SHA/);
      at.pull.head = other;
      assert.match(await why('/deploy ship it'), /The head of the pull request is not/);
      at.pull.head = sha;
      await at.comment(`/deploy ship it ${sha}`);
      await at.told();
      assert.deepEqual(await deploys(), ['waiting_for_approval'], 'its approval is for users here');

      at.pull.head = other;
      await at.bring({ ...theirs, fromFork: false }, other);
      await at.fetched(foreign); // it says that it is none, and the repository knows it on no branch
      for (const task of (await at.take(1)).values()) await task.exit(0);
      assert.match(await why('/deploy ship it'), /comes from a fork/);
      assert.equal((await deploys()).length, 1);
    });

    test('count the suites of the request that was joined, and all variants of one', async (t) => {
      const at = await begin(t, 'gitea', {}, []);
      await at.user.createSuite(at.project, { name: 'unit', 'matrix[]': 'NODE=22,24' });
      const first = await at.bring(push);
      await at.fetched();
      const second = await at.bring(pull);
      for (let count = 0; count < 2; count += 1) await (await runner.take('run_suite')).exit(1);
      assert.deepEqual(await at.seen(second), ['failed', first]);
      await at.comment('/retest');
      assert.deepEqual(await at.errors(), ['', '']);
      for (let count = 0; count < 2; count += 1) await (await runner.take('run_suite')).exit(0);
      assert.deepEqual(await at.seen(second), ['passed', first]);
      await at.comment('/retest unit');
      await at.told();
      assert.equal((await ran(at, first)).filter((one) => one.endsWith('3 enqueued')).length, 2);
      await at.comment('/cancel');
      await at.comment('/retest');
      for (let count = 0; count < 2; count += 1) await (await runner.take('run_suite')).exit(0);
    });

    test('come by hundreds in a minute, and the forge is asked about few', async (t) => {
      const at = await begin(t);
      await at.built(0);
      await at.told(); // the statuses
      const before = at.forge.calls.length;
      const outcomes: unknown[] = [];
      for (let count = 0; count < 150; count += 1) {
        const login = count < 100 ? 'mallory' : `sock${count}`;
        at.forge.accounts.set(login, count < 100 ? 10 : 1000 + count);
        outcomes.push((await at.comment('/retest', login)).outcome);
      }
      const taken = outcomes.filter((outcome) => outcome === 'command').length;
      assert.deepEqual([taken, outcomes.slice(0, 100).filter((one) => one === 'command').length], [30, 10]);
      await at.told();
      assert.ok(at.forge.calls.length - before <= 60, 'two questions for each');
      assert.deepEqual(at.texts, []);
    });
  },
  { settings: { webhook_allow: '127.0.0.0/8' } },
);
