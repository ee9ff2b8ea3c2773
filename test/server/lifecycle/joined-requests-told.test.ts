import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Listener } from '../../support/firehose.ts';
import { Brought, pull, push } from '../../support/joined.ts';
import { Receiver, reply } from '../../support/receiver.ts';
import { describeWithRunner } from '../../support/runner.ts';
import { Tab } from '../../support/tab.ts';

interface Told {
  state: string;
  context: string;
  target_url: string;
  description: string;
}

describeWithRunner(
  'of two requests for one commit, people and forges',
  (service, runner) => {
    const begin = async (forge: Receiver): Promise<Brought> => {
      const brought = await Brought.begin(service, runner, ['unit']);
      await brought.suiteFor('pull_request', { name: 'preview' });
      await brought.user.createStatusTarget(brought.project, { api_url: `http://127.0.0.1:${forge.port}` });
      return brought;
    };
    /** What the forge was told of the whole commit, when it had so many statuses. */
    const ofWhole = async (forge: Receiver, many: number): Promise<string[]> => {
      const all = (await forge.received(many)).map(({ body }) => JSON.parse(body) as Told);
      return all.flatMap(({ context, state, description }) =>
        context === 'headrace' ? [`${state}: ${description}`] : [],
      );
    };

    test('see one status, pending until both are over, whichever of them is over first', async () => {
      for (const late of ['unit', 'preview']) {
        await using forge = await Receiver.start(reply(201));
        const brought = await begin(forge);
        const [first, second] = [await brought.bring(push), await brought.bring(pull)];
        await brought.fetched();
        await brought.fetched();
        const tasks = await brought.take(2);
        for (const [name, task] of tasks) if (name !== late) await task.exit(0);
        const pending = 'pending: Fetching the commit';
        // `preview` is left out of the first, and told so.
        assert.deepEqual(await ofWhole(forge, 8), [pending, pending]);
        await tasks.get(late)?.exit(1);
        assert.deepEqual(await ofWhole(forge, 10), [pending, pending, 'failure: 1 of 2 suites failed']);
        assert.deepEqual(await brought.seen(second), ['failed', first]);
        // The first runs again: the status is that of both again.
        const again = `${brought.path}/build_requests/${late === 'unit' ? first : second}/rerun`;
        assert.equal((await brought.user.post(again, { failed_only: 'true' })).status, 200);
        await brought.run(1);
        const last = (await forge.received(10 + (late === 'unit' ? 6 : 5))).at(-1);
        const { context, state, description } = JSON.parse(last?.body ?? '{}') as Told;
        assert.deepEqual([context, state, description], ['headrace', 'success', '2 suites passed']);
      }
    });

    test('see the status of the first alone where the second was cancelled', async () => {
      await using forge = await Receiver.start(reply(201));
      const brought = await begin(forge);
      const [first, second] = [await brought.bring(push), await brought.bring(pull)];
      await brought.fetched();
      await brought.fetched();
      await brought.user.post(`${brought.path}/build_requests/${second}/cancel`);
      await brought.run(1);
      const all = await ofWhole(forge, 9);
      assert.deepEqual(all.slice(2), ['success: 1 suite passed']);
      assert.deepEqual(await brought.seen(first), ['passed', null]);
    });

    test('follow the second until both are over', async () => {
      const brought = await Brought.begin(service, runner, ['unit']);
      const [first, second] = [await brought.bring(push), await brought.bring(pull)];
      await brought.fetched();
      await brought.fetched();
      const listener = await Listener.open(brought.user, `${brought.path}/build_requests/${second}/firehose`);
      const logged = await listener.until(({ event }) => event === 'log');
      assert.ok(JSON.stringify(logged.at(-1)?.data).includes(`Joined to build request ${first}`));
      await brought.run(1);
      const states = (await listener.rest()).filter(({ event }) => event === 'state').map(({ data }) => data.state);
      assert.equal(states.at(-1), 'passed');
    });

    test('are led from the page of the second to the first', async () => {
      const brought = await Brought.begin(service, runner, ['unit']);
      const [first, second] = [await brought.bring(push), await brought.bring(pull)];
      await brought.fetched();
      await brought.fetched();
      await brought.run(1, 'unit');
      const tab = new Tab(service);
      await tab.signIn(brought.user.credentials);
      const pages = `/ui/projects/${brought.project.id}/requests`;
      const page = (await tab.get(`${pages}/${second}`)).text;
      assert.ok(page.includes(`<a href="${pages}/${first}">request ${first}</a>`), page);
      assert.ok(page.includes('Run failed again'));
      assert.ok(page.includes(`Build request ${first} runs it.`));
      assert.ok(!page.includes('None of the suites of this project applies'));
      assert.ok(!(await tab.get(`${pages}/${first}`)).text.includes('It is joined to'));
    });
  },
  { settings: { base_url: 'https://ci.example.org', webhook_allow: '127.0.0.0/8' } },
);
