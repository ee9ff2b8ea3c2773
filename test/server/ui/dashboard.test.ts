import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { sql } from 'kysely';
import { recordHeartbeat } from '../../../src/server/auth/runner-heartbeats.ts';
import type { Record_ } from '../../support/client.ts';
import { describeWithRunner } from '../../support/runner.ts';
import { SuiteRuns } from '../../support/suite-runs.ts';
import { Tab } from '../../support/tab.ts';
import type { User } from '../../support/user.ts';

describeWithRunner('the dashboard', (service, runner) => {
  let alice: User;
  let tab: Tab;
  before(async () => {
    alice = await service.user();
    tab = await tabOf(alice);
    await recordHeartbeat(service.store.db, runner.self, { version: '', trouble: '' });
  });
  const tabOf = async (user: User): Promise<Tab> => {
    const its = new Tab(service);
    await its.signIn(user.credentials);
    return its;
  };
  const one = (text: string): string => text.replaceAll(/\s+/g, ' ');
  const words = (text: string): string => one(text.replaceAll(/<[^>]+>/g, ' ')).trim();
  const lineOf = async ({ project }: SuiteRuns, its = tab): Promise<string> => {
    const { text } = await its.get('/ui/');
    return one(new RegExp(`<li id="project-${project.id}".*?</li>`, 's').exec(text)?.[0] ?? assert.fail(text));
  };
  const ownOf = async (its = tab): Promise<string> => {
    const { text } = await its.get('/ui/');
    return one(/<section id="requested".*?<\/section>/s.exec(text)?.[0] ?? assert.fail(text));
  };
  const fetched = (runs: SuiteRuns, digit: string, branch: string, message: string): Promise<Record_> =>
    runs.fetched(
      { commit_ref: branch },
      {
        sha: digit.repeat(40),
        message,
        branch,
        branches: [branch],
        ref: `refs/heads/${branch}`,
        defaultHead: branch === 'main' ? 'this' : 'kept',
        defaultBranch: branch === 'main' ? 'main' : null,
      },
    );
  const build = async (...[runs, digit, branch, message, exit]: [...Parameters<typeof fetched>, number]) => {
    const request = await fetched(runs, digit, branch, message);
    await (await runner.take('run_suite')).exit(exit);
    return request;
  };

  test('shows a state with its own commit and branch, and below it what another branch brought', async () => {
    const runs = await SuiteRuns.begin(alice, runner);
    assert.match(await lineOf(runs), /Nothing was built yet/);
    await runs.suite();
    await build(runs, 'a', 'main', 'Close the gates', 0);
    const other = await build(runs, 'b', 'feature/gates', 'Open all of them', 1);
    const line = await lineOf(runs);
    assert.match(line, /passed<\/span>/);
    assert.match(line, />Close the gates<\/a> <span class="aside" ?><code>main<\/code> <code>aaaaaaaaaa<\/code> Ada,/);
    assert.doesNotMatch(line, /Open all of them/);
    assert.ok(line.includes(`href="/ui${runs.path}/requests/${other.id}"><code>feature/gates</code>`), line);
    assert.match(words(line), /Then feature\/gates , failed, just now/);
    assert.match(line, /aria-label="Last 1 build of main, oldest first: passed, /);
  });

  test('shows how long builds took as the height of their bars, and leaves out the time between two runs', async () => {
    const runs = await SuiteRuns.begin(alice, runner);
    await runs.suite();
    const requests: Record_[] = [];
    for (const [digit, exit] of [
      ['a', 0],
      ['b', 1],
      ['c', 0],
      ['d', 0],
    ] as const)
      requests.push(await build(runs, digit, 'main', `number ${digit}`, exit));
    const { db } = service.store;
    const took = (request: Record_ | undefined, ms: number) =>
      db.transaction((trx) =>
        sql`update build_requests set finished_at = started_at + ${ms} where id = ${request?.id}`.execute(trx),
      );
    for (const [at, ms] of [60_000, 30_000, 3_600_000].entries()) await took(requests[at], ms);
    // Run again days later: neither counts the days.
    const days = 3 * 24 * 60 * 60 * 1000;
    await db.transaction((trx) =>
      sql`update builds set created_at = created_at - ${days}, started_at = started_at - ${days},
        finished_at = finished_at - ${days} where build_request_id = ${requests[3]?.id}`.execute(trx),
    );
    await alice.post(`${runs.path}/build_requests/${requests[3]?.id}/rerun`);
    await (await runner.take('run_suite')).exit(0);
    const line = await lineOf(runs);
    const told = /aria-label="(Last 4 builds of main, oldest first: .*?)"/.exec(line)?.[1] ?? assert.fail(line);
    assert.match(told, /passed, 1 min 0 s; failed, 30 s; passed, 1 h 0 min; passed, \d s$/);
    const bars = Array.from(line.matchAll(/<rect class="(\w+)".*?height="(\d+)"/g), ([, look, tall]) => [look, tall]);
    assert.deepEqual(bars.slice(0, 3), [
      ['good', '8'],
      ['bad', '4'],
      ['good', '24'],
    ]);
  });

  test('leads to what waits for approval, and to what no runner takes', async () => {
    const runs = await SuiteRuns.begin(alice, runner);
    await runs.suite({ name: 'ship', approval: 'true' });
    assert.doesNotMatch(await lineOf(runs), /class="chips"/);
    const held = await fetched(runs, 'a', 'main', 'one');
    const chip = new RegExp(
      `<a class="state held" href="/ui${runs.path}/requests/${held.id}">.*?waits for approval</a>`,
    );
    assert.match(await lineOf(runs), chip);
    const fork = await fetched(runs, 'f', 'main', 'of a fork');
    await service.store.db.transaction((trx) =>
      sql`update build_requests set build_state = 'waiting_for_approval' where id = ${fork.id}`.execute(trx),
    );
    assert.match(words(await lineOf(runs)), /3 wait for approval/, 'two builds and a request');

    const tagged = await SuiteRuns.begin(alice, runner);
    await tagged.suite({ name: 'render', 'tags[]': 'gpu' });
    await tagged.suite({ name: 'unit' });
    const stuck = await fetched(tagged, 'b', 'main', 'two');
    const line = await lineOf(tagged);
    assert.match(
      line,
      new RegExp(`<a class="state warn" href="/ui${tagged.path}/requests/${stuck.id}">.*?no runner</a>`),
    );
    assert.match(words(line), /no runner has the tags gpu/);
    assert.doesNotMatch(words(await lineOf(runs)), /no runner/);
    const free = await runner.take('run_suite').catch(() => undefined);
    await free?.exit(0);

    const deploying = await SuiteRuns.begin(alice, runner);
    await deploying.suite();
    await build(deploying, 'c', 'main', 'three', 0);
    const strategy = await alice.createStrategy(deploying.project, { approval: 'true' });
    const deploy = await alice.post(`${deploying.path}/deploys`, { deploy_strategy_id: String(strategy.id) });
    assert.equal(deploy.record.state, 'waiting_for_approval', deploy.text);
    assert.ok((await lineOf(deploying)).includes(`href="/ui${deploying.path}/deploys/${deploy.record.id}"`));
  });

  test('has on top what the visitor asked for, across projects, and nothing of others [promise: account-walls]', async () => {
    const [bob, carol] = [await service.user(), await service.user()];
    const hers = await SuiteRuns.begin(bob, runner);
    const shared = await SuiteRuns.begin(bob, runner);
    await bob.invite(shared.project, carol);
    for (const runs of [hers, shared]) await runs.suite();
    const own = await build(hers, 'a', 'main', 'Mend <i>it</i>', 0);
    const asked = await carol.post(`${shared.path}/build_requests`, { commit_ref: 'wip' });
    const [bobs, carols] = [await tabOf(bob), await tabOf(carol)];
    const list = await ownOf(bobs);
    assert.ok(list.includes(`/requests/${own.id}"`) && list.includes('Mend &lt;i&gt;it&lt;/i&gt;'), list);
    assert.doesNotMatch(list, /wip/);
    assert.match(words(await ownOf(carols)), /^Requested by you waiting .*: wip just now$/);
    const member = (await bob.get(`${shared.path}/collaborators`)).list[0];
    await bob.delete(`${shared.path}/collaborators/${member?.id}`);
    assert.equal(words(await ownOf(carols)), '', 'she sees that project no more');
    // An old request leaves the list once it is over.
    await service.store.db.transaction((trx) => sql`update build_requests set created_at = 1`.execute(trx));
    assert.equal(words(await ownOf(bobs)), '');
    await bob.invite(shared.project, carol);
    assert.match(words(await ownOf(carols)), /wip/);
    await carol.post(`${shared.path}/build_requests/${asked.record.id}/cancel`);
    assert.equal(words(await ownOf(carols)), '');
  });
});
