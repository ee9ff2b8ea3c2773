import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { sql } from 'kysely';
import type { Record_ } from '../../support/client.ts';
import { describeWithRunnerOnOne } from '../../support/runner.ts';
import { SuiteRuns } from '../../support/suite-runs.ts';
import { Tab } from '../../support/tab.ts';
import type { User } from '../../support/user.ts';

describeWithRunnerOnOne('how projects are doing', (service, runner) => {
  let alice: User;
  let tab: Tab;
  before(async () => {
    alice = await service.user();
    tab = new Tab(service);
    await tab.signIn(alice.credentials);
  });
  const one = (text: string): string => text.replaceAll(/\s+/g, ' ');
  /** Builds a commit of the default branch, or of another one; it is over when this returns. */
  const build = async (runs: SuiteRuns, sha: string, exit: number, branch = 'main'): Promise<Record_> => {
    const [defaultHead, defaultBranch] = branch === 'main' ? (['this', 'main'] as const) : (['kept', null] as const);
    const about = {
      sha: sha.repeat(40),
      branch,
      branches: [branch],
      ref: `refs/heads/${branch}`,
      defaultHead,
      defaultBranch,
    };
    const request = await runs.fetched({ commit_ref: branch }, about);
    await (await runner.take('run_suite')).exit(exit);
    return request;
  };
  const since = async ({ project }: SuiteRuns) =>
    service.store.db.read
      .selectFrom('projects')
      .select(['passed_since', 'failed_since'])
      .where('id', '=', project.id)
      .executeTakeFirstOrThrow();
  const overview = async (runs: SuiteRuns): Promise<string> =>
    one(/<section id="overview".*?<\/section>/s.exec((await tab.get(`/ui${runs.path}`)).text)?.[0] ?? '');

  test('a project fails from its first failure on the default branch until it passes again', async () => {
    const runs = await SuiteRuns.begin(alice, runner);
    await runs.suite();
    await build(runs, 'a', 0);
    const passed = await since(runs);
    assert.ok(passed.passed_since !== null && passed.failed_since === null);
    assert.match(await overview(runs), /passed<\/span> <code>main<\/code> <span class="aside">passing for/);
    await build(runs, 'b', 1);
    const first = await since(runs);
    assert.ok(first.failed_since !== null && first.passed_since === null);
    // Neither a second failure, nor what other branches do, nor a build that is under way begins it anew.
    await build(runs, 'c', 1);
    await build(runs, 'd', 0, 'other');
    await alice.post(`${runs.path}/build_requests`, { commit_ref: 'main' });
    const fetching = await runner.take('fetch_commit');
    await fetching.fetched({ sha: 'e'.repeat(40), defaultHead: 'this', defaultBranch: 'main' });
    const task = await runner.take('run_suite');
    assert.deepEqual(await since(runs), first);
    assert.match(await overview(runs), /<\/span> <code>main<\/code> <span class="failing">failing for <time/);
    const { text } = await tab.get('/ui/');
    assert.match(one(text), new RegExp(`id="project-${runs.project.id}".*?failing for <time datetime=`));
    await task.exit(0);
    const again = await since(runs);
    assert.ok(again.passed_since !== null && again.failed_since === null);
    assert.match(await overview(runs), /passing for/);
  });

  test('the first line of a project tells of its last builds, of what runs, and of flaky tests', async () => {
    const runs = await SuiteRuns.begin(alice, runner);
    assert.doesNotMatch(await overview(runs), /state|svg/, 'nothing was built yet');
    await runs.suite();
    await build(runs, 'a', 0);
    await build(runs, 'b', 1);
    await build(runs, 'c', 0, 'other');
    await build(runs, 'd', 0);
    await service.store.db.transaction(async (trx) => {
      await sql`update build_requests set started_at = 1000, finished_at = 66000 where project_id = ${runs.project.id}`.execute(
        trx,
      );
      const flake = { project_id: runs.project.id, suite_name: 'x', variant: '', class: '', suite: 's', message: '' };
      const seen = { failures: 1, passes: 1, failed_build_id: 1n, began_at: 1n, last_seen_at: BigInt(Date.now()) };
      for (const [commit_id, name] of [
        [1n, 'moody'],
        [2n, 'moody'],
        [1n, 'shaky'],
      ] as const) {
        const row = { ...flake, ...seen, commit_id, name, test_key: BigInt(name.charCodeAt(0)) };
        await trx.insertInto('test_flakes').values(row).execute();
      }
    });
    const quiet = await overview(runs);
    // The other branch is not among them. A screen reader hears every number.
    const told = 'Last 3 builds of main, oldest first: passed, 1 min 5 s; failed, 1 min 5 s; passed, 1 min 5 s';
    assert.ok(quiet.includes(`aria-label="${told}"`), quiet);
    assert.equal(
      quiet
        .split(told)[1]
        ?.split('</svg>')[0]
        ?.match(/<rect /g)?.length,
      3,
    );
    assert.match(quiet, /2 of 3 passed, usually in 1 min 5 s/);
    assert.match(quiet, new RegExp(`<a href="/ui${runs.path}/tests">2 flaky tests</a>`));
    assert.match(quiet, /Nothing is running/);
    const asked = await alice.post(`${runs.path}/build_requests`, { commit_ref: 'main' });
    const busy = await overview(runs);
    assert.match(busy, new RegExp(`<a href="/ui${runs.path}\\?running=yes">1 build runs now</a>`));
    const running = (await tab.get(`/ui${runs.path}?running=yes`)).text;
    assert.match(running, /<h1>Running now<\/h1>/);
    assert.ok(running.includes(`/requests/${asked.record.id_str}"`));
    await (await runner.take('fetch_commit')).fetched({ sha: 'a'.repeat(40), defaultHead: 'kept' });
    await (await runner.take('run_suite')).exit(0);
    assert.match((await tab.get(`/ui${runs.path}?running=yes`)).text, /Nothing is running/);
  });

  test('the form of a project has its default branch filled in, also before its first build', async () => {
    const runs = await SuiteRuns.begin(alice, runner);
    const filledIn = async (): Promise<string | undefined> =>
      /<input[^>]*name="commit_ref"[^>]*>/s
        .exec((await tab.get(`/ui${runs.path}`)).text)?.[0]
        .match(/value="(.*?)"/)?.[1];
    assert.equal(await filledIn(), '');
    const { db, ids } = service.store;
    const answer = JSON.stringify({ connected: true, message: '', default_branch: 'trunk', branches: [], files: [] });
    const check = { id: ids.next(), project_id: runs.project.id, created_at: 1n, answer, workflows: '[]' };
    await db.transaction((trx) => trx.insertInto('connection_checks').values(check).execute());
    assert.equal(await filledIn(), 'trunk');
    await runs.suite();
    await build(runs, 'a', 0);
    assert.equal(await filledIn(), 'main');
  });

  test('the dashboard shows failing projects first, and others by an address of its own', async () => {
    const own = await service.user();
    const his = new Tab(service);
    await his.signIn(own.credentials);
    for (const [name, exit] of [
      ['aqueduct', 0],
      ['basin', 1],
      ['canal', 0],
      ['dam', 1],
    ] as const) {
      const runs = new SuiteRuns(own, await own.createProject({ name }), runner);
      await runs.suite();
      await build(runs, 'f', exit);
    }
    const order = async (path: string): Promise<string[]> =>
      Array.from((await his.get(path)).text.matchAll(/data-name="(\w+)"/g), ([, name = '']) => name);
    assert.deepEqual(await order('/ui/'), ['basin', 'dam', 'aqueduct', 'canal']);
    assert.deepEqual(await order('/ui/?sort=name'), ['aqueduct', 'basin', 'canal', 'dam']);
    assert.deepEqual(await order('/ui/?sort=failed'), ['basin', 'dam', 'aqueduct', 'canal']);
    assert.deepEqual(await order('/ui/?sort=failed&filter=a'), ['basin', 'dam', 'aqueduct', 'canal']);
    const page = one((await his.get('/ui/?sort=failed&filter=ba')).text);
    assert.match(page, /<nav aria-label="Sort".*?href="\/ui\/\?sort=name&amp;filter=ba"/);
    assert.match(page, /<a href="\/ui\/\?sort=failed&amp;filter=ba" aria-current="true">Failed first<\/a>/);
    assert.equal(page.match(/failing for/g)?.length, 1);
    const byName = one((await his.get('/ui/?sort=name')).text);
    assert.match(byName, /<form method="get" action="\/ui\/"[^>]*> <input type="hidden" name="sort" value="name" \/>/);
  });
});
