import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import type { Record_ } from '../../support/client.ts';
import { registerApplication } from '../../support/applications.ts';
import { addCommit } from '../../support/rows.ts';
import { describeWithRunner } from '../../support/runner.ts';
import { Tab } from '../../support/tab.ts';
import type { User } from '../../support/user.ts';

describeWithRunner('the page of deploys', (service, runner) => {
  let alice: User;
  let bob: User;
  let tab: Tab;
  let project: Record_;
  let path: string;
  before(async () => {
    [alice, bob] = [await service.user(), await service.user()];
    project = await alice.createProject();
    await alice.invite(project, bob);
    path = `/projects/${project.id}`;
    tab = new Tab(service);
    await tab.signIn(bob.credentials);
  });
  const words = (text: string): string =>
    text
      .replaceAll(/<[^>]+>/g, ' ')
      .replaceAll(/\s+/g, ' ')
      .trim();
  const cardOf = async ({ id }: Record_): Promise<string> => {
    const { text } = await tab.get(`/ui${path}/deploys`);
    return new RegExp(`<section [^>]*id="strategy-${id}".*?</section>`, 's').exec(text)?.[0] ?? assert.fail(text);
  };
  const nowOf = async (strategy: Record_): Promise<string> =>
    words(/<div id="strategy-\d+-now".*?<\/div>\s*(?=<form)/s.exec(await cardOf(strategy))?.[0] ?? '');
  let count = 0;
  const commit = (message: string, state: string) => {
    count += 1;
    return addCommit(service.store, project, { message, build_state: state, ref: String(count).repeat(40) });
  };
  const deploys = async (): Promise<Record_[]> => (await alice.get(`${path}/deploys`)).list;

  test('has a card for each strategy: what is there since when and by whom, and what was there before', async () => {
    const [live, staging] = [
      await alice.createStrategy(project, { name: 'live' }),
      await alice.createStrategy(project, { name: 'staging' }),
    ];
    assert.match(await nowOf(live), /^Deployed now nothing yet$/);
    const [first, second] = [await commit('Open <b>it</b>', 'passed'), await commit('Close it again', 'passed')];
    for (const [by, { id }] of [
      [alice, first],
      [bob, second],
    ] as const) {
      assert.doesNotMatch(await cardOf(live), /Roll back/, 'there is nothing to go back to');
      const asked = { deploy_strategy_id: String(live.id), commit_id: String(id) };
      assert.equal((await by.post(`${path}/deploys`, asked)).status, 201);
      await (await runner.take('push_deploy')).finish({ kind: 'pushed' });
    }
    assert.equal(await nowOf(live), `Deployed now 2222222222 Close it again Since just now By ${bob.email}`);
    const card = await cardOf(live);
    assert.match(words(card), /Before: 1111111111 Open &lt;b&gt;it&lt;\/b&gt; Roll back/);
    assert.match(words(card), /History deployed 2222222222 Close it again .* deployed 1111111111 Open &lt;b&gt;it/);
    assert.match(await nowOf(staging), /nothing yet/);
    const suite = await alice.createSuite(project, { name: 'ship <it>', manual: 'true' });
    const bySuite = { name: 'by a suite', strategy_type: 'suite', 'options[suite_id]': String(suite.id) };
    const runs = await alice.post(`${path}/deploy_strategies`, bySuite);
    assert.match(
      words(await cardOf(runs.record)),
      /^by a suite runs the suite ship &lt;it&gt; Deployed now nothing yet/,
    );

    // Going back is one press, and shows as under way while what is there stays there.
    const at = `/ui${path}/deploys`;
    const back = { do: 'roll_back', deploy_strategy_id: String(live.id), rollback: 'true' };
    const sent = await tab.submit(await tab.get(at), at, back);
    assert.equal(sent.status, 303, sent.text);
    const [deploy] = await deploys();
    assert.equal((await alice.get(`${path}/deploys/${deploy?.id}`)).record.commit_id, first.id);
    assert.match(
      await nowOf(live),
      /^Deployed now \d+ Close it again .* waiting Open &lt;b&gt;it&lt;\/b&gt; just now by/,
    );
    await (await runner.take('push_deploy')).finish({ kind: 'pushed' });
    assert.match(await nowOf(live), /^Deployed now \d+ Open &lt;b&gt;it&lt;\/b&gt; Since just now/);
  });

  test('deploys a commit that has not passed only after its state was typed', async () => {
    const strategy = await alice.createStrategy(project, { name: 'careful' });
    const failed = await commit('It is broken', 'failed');
    const before = (await deploys()).length;
    const fields = { do: 'deploy', deploy_strategy_id: String(strategy.id), commit_id: String(failed.id) };
    const own = `/ui${path}/commits/${failed.id}`;
    for (const at of [`/ui${path}/deploys`, own]) {
      for (const confirmation of [undefined, '', 'yes', 'passed']) {
        const typed = confirmation === undefined ? {} : { confirmation };
        const refused = await tab.submit(await tab.get(at), at, { ...fields, ...typed });
        assert.equal(refused.status, 403, at);
        assert.match(
          words(refused.text),
          /The state of this commit is “failed”. To deploy it all the same, type “failed”./,
        );
        assert.match(refused.text, /<input[^>]*name="confirmation"[^>]*aria-invalid="true"/);
      }
    }
    assert.equal((await deploys()).length, before, 'nothing was deployed');
    assert.match((await tab.get(own)).text, /name="confirmation"/, 'the page of the commit asks at once');
    const sure = await tab.submit(await tab.get(own), own, { ...fields, confirmation: ' Failed' });
    assert.equal(sure.status, 303, sure.text);
    assert.equal((await deploys()).length, before + 1);
    await (await runner.take('push_deploy')).finish({ kind: 'pushed' });
    // One that has passed asks nothing.
    const good = await commit('It is mended', 'passed');
    assert.doesNotMatch((await tab.get(`/ui${path}/commits/${good.id}`)).text, /name="confirmation"/);
    const at = `/ui${path}/deploys`;
    const sent = await tab.submit(await tab.get(at), at, { ...fields, commit_id: String(good.id) });
    assert.equal(sent.status, 303, sent.text);
    // A commit of another project is none of this one, and its state is not told.
    const other = await addCommit(service.store, await alice.createProject(), { build_state: 'errored' });
    const foreign = await tab.submit(await tab.get(at), at, { ...fields, commit_id: String(other.id) });
    assert.match(foreign.text, /Commit names nothing that is there\./);
    assert.doesNotMatch(foreign.text, /“errored”/);
  });

  test('shows commits only to tokens that may read them', async () => {
    const application = await registerApplication(service, alice);
    for (const scopes of [['deploys'], ['deploys', 'commits']] as const) {
      const headers = { authorization: `Bearer ${await application.token(alice, scopes)}` };
      for (const route of ['overview', 'details']) {
        const answer = await service.api.get(`${path}/deploys/${route}`, { headers });
        assert.equal(answer.status, 200, answer.text);
        assert.equal(answer.text.includes('Close it again'), scopes.length === 2, `${scopes.join()}: ${route}`);
      }
    }
  });
});
