import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { loadOf } from '../../../src/server/resources/load.ts';
import { statisticsOf } from '../../../src/server/results/statistics.ts';
import { firstIdAt } from '../../../src/shared/lib/ids.ts';
import type { TestReport } from '../../../src/shared/protocol/index.ts';
import type { Record_ } from '../../support/client.ts';
import { assertRefused } from '../../support/expect.ts';
import { aCommit, describeWithRunner } from '../../support/runner.ts';
import { Tab } from '../../support/tab.ts';
import type { User } from '../../support/user.ts';

const minute = 60_000;
const hour = 60 * minute;
const day = 24 * hour;
/** At noon, three days ago. All times of the builds follow from it. */
const noon = Date.now() - (Date.now() % day) - 3 * day + day / 2;

interface Ran {
  /** When it was asked for, after noon. */
  at: number;
  waits?: number;
  takes?: number;
  state: 'passed' | 'failed' | 'running' | 'enqueued';
  branch?: string;
  suite?: string;
  needs?: string[];
  approval?: number;
  byMachine?: number;
}

describeWithRunner('the numbers of a project', (service, runner) => {
  let alice: User;
  let project: Record_;
  let commit: bigint;
  let count = 0;
  before(async () => {
    alice = await service.user();
    project = await alice.createProject();
    await alice.createSuite(project, { name: 'unit' });
    await alice.requestBuild(project);
    await (await runner.take('fetch_commit')).fetched({ ...aCommit, defaultBranch: 'main' });
    await (await runner.take('run_suite')).exit(0);
    commit = (await alice.get(`/projects/${project.id}/commits`)).list[0]?.id ?? 0n;
    // Its own times are of now.
    const { db } = service.store;
    await db.transaction(async (trx) => {
      await trx.deleteFrom('builds').execute();
      await trx.deleteFrom('build_requests').execute();
    });
  });

  /** Requests with one build each, as the server would have stored them. */
  const happened = async (...all: Ran[]): Promise<void> => {
    const { db } = service.store;
    const { id: owner } = await db.read.selectFrom('users').select('id').executeTakeFirstOrThrow();
    for (const { at, waits = 0, takes = minute, state, branch = 'main', ...build } of all) {
      count += 1;
      const created = noon + at;
      const id = firstIdAt(created) + BigInt(2 * count);
      const started = state === 'enqueued' ? null : BigInt(created + waits);
      const isOver = state === 'passed' || state === 'failed';
      await db.transaction(async (trx) => {
        const request = { id, project_id: project.id, commit_ref: branch, commit_id: commit, created_by: owner };
        const known = { created_at: BigInt(created), branch, build_state: isOver ? state : 'building' };
        await trx
          .insertInto('build_requests')
          .values({ ...request, ...known } as never)
          .execute();
        await trx
          .insertInto('builds')
          .values({
            id: id + 1n,
            project_id: project.id,
            build_request_id: id,
            commit_id: commit,
            suite_name: build.suite ?? 'unit',
            build_state: state,
            attempt: count,
            failure_reason: '',
            created_at: BigInt(created),
            started_at: started,
            finished_at: isOver ? BigInt(created + waits + takes) : null,
            needs: JSON.stringify(build.needs ?? []),
            approval: build.approval ?? 0,
            by_machine: build.byMachine ?? 0,
          } as never)
          .execute();
      });
    }
  };
  const statistics = async () => (await alice.get(`/projects/${project.id}/statistics`)).record;

  test('are the pass rate, the times and the suites of its default branch in the last 30 days', async () => {
    assert.deepEqual(
      { ...(await statistics()), days: 0, since: '' },
      {
        default_branch: 'main',
        since: '',
        finished: 0,
        passed: 0,
        duration_ms: null,
        queue_ms: null,
        time_to_green_ms: null,
        days: 0,
        suites: [],
      },
    );
    await happened(
      { at: -40 * day, state: 'failed' },
      { at: 0, waits: 2000, takes: 2 * minute, state: 'passed' },
      { at: hour, waits: 4000, takes: minute, state: 'failed' },
      { at: 2 * hour, waits: 1000, takes: minute, state: 'failed', byMachine: 1 },
      { at: 5 * hour, waits: 9000, takes: 4 * minute, state: 'passed', needs: ['lint'] },
      // Another branch counts for the suites and for the queue.
      { at: 6 * hour, waits: 30_000, takes: 10 * minute, state: 'passed', branch: 'topic', suite: 'slow' },
      { at: day, state: 'running', takes: 0 },
      { at: day + hour, waits: 0, takes: 3 * minute, state: 'passed' },
    );
    const { days, suites, since, ...all } = await statistics();
    assert.match(String(since), /T00:00:00/);
    assert.deepEqual(all, {
      default_branch: 'main',
      finished: 5,
      passed: 3,
      duration_ms: 3 * minute,
      // Without the builds that had to wait for another suite and for the next try: 0, 0, 2, 4 and 30 seconds.
      queue_ms: 2000,
      // From the end of the first failure to the end of the next pass.
      time_to_green_ms: 4 * hour + 9000 + 4 * minute - (4000 + minute),
    });
    const shown = (days as Record<string, unknown>[]).filter(({ finished }) => finished !== 0);
    assert.equal((days as unknown[]).length, 30);
    assert.deepEqual(
      shown.map(({ day: on, finished, passed, duration_ms: took }) => [on, finished, passed, took]),
      [
        [new Date(noon).toISOString().slice(0, 10), 4, 2, 2 * minute],
        [new Date(noon + day).toISOString().slice(0, 10), 1, 1, 3 * minute],
      ],
    );
    assert.deepEqual(suites, [
      { suite_name: 'slow', builds: 1, passed: 1, machine_tries: 0, median_ms: 10 * minute, slow_ms: 10 * minute },
      { suite_name: 'unit', builds: 5, passed: 3, machine_tries: 1, median_ms: 3 * minute, slow_ms: 4 * minute },
    ]);
    const stranger = await service.user();
    assert.equal((await stranger.get(`/projects/${project.id}/statistics`)).status, 404);
  });

  test('are shown on its page, with their tables', async () => {
    const tab = new Tab(service);
    await tab.signIn(alice.credentials);
    const { text } = await tab.get(`/ui/projects/${project.id}`);
    assert.match(text, /Pass rate\s*<strong>60 %<\/strong>/);
    assert.match(text, /Time to green\s*<strong>4 h 3 min<\/strong>/);
    assert.match(text, /aria-label="Pass rate by day, oldest first: [^"]*2 of 4 passed; [^"]*1 of 1 passed"/);
    assert.match(text, /Suites by duration[^]*slow[^]*10 min 0 s[^]*unit[^]*60 %[^]*1 time by the machine/);
    assert.doesNotMatch(text, /style="/);
    const second = await tab.get(`/ui/projects/${project.id}?branch=main`);
    assert.doesNotMatch(second.text, /Pass rate/);
  });

  test('of the last day are the most that ran and waited at once', async () => {
    const { db } = service.store;
    const now = noon + 20 * day;
    const ago = (ms: number): number => now - noon - ms;
    await happened(
      { at: ago(3 * hour), waits: 30 * minute, takes: hour, state: 'passed' },
      { at: ago(2 * hour), waits: minute, takes: 5 * minute, state: 'failed' },
      { at: ago(2 * hour), waits: 0, takes: 3 * minute, state: 'passed', approval: 1 },
      { at: ago(30 * hour), waits: 0, state: 'running' },
      { at: ago(20 * minute), state: 'enqueued' },
      { at: ago(20 * minute), state: 'enqueued', approval: 1 },
    );
    // The tests before this one left a build that runs for ever.
    const { running, waiting, step_seconds: step } = await loadOf(db.read, now);
    assert.equal(step, 900);
    assert.deepEqual([running.length, waiting.length], [96, 96]);
    const at = (list: number[], ms: number): number | undefined => list[96 - Math.ceil(ms / (15 * minute))];
    assert.deepEqual([at(running, 24 * hour), at(running, 2.5 * hour), at(running, 2 * hour)], [2, 3, 5]);
    assert.deepEqual([at(waiting, 3 * hour), at(waiting, 2.4 * hour), at(waiting, 10 * minute)], [1, 0, 1]);
    assertRefused(await (await service.user()).get('/operations/load'), 401, { generic: ['unauthorized'] });
  });

  test('come from a limited number of builds', async () => {
    const { db } = service.store;
    const many = Array.from({ length: 2001 }, (_, at) => at);
    const [one] = await db.read.selectFrom('builds').selectAll().where('build_state', '=', 'passed').execute();
    assert.ok(one);
    const later = noon + 40 * day;
    await db.transaction(async (trx) => {
      for (let from = 0; from < many.length; from += 100) {
        const rows = many.slice(from, from + 100).map((at) => {
          const created = BigInt(later + at * 1000);
          const times = { created_at: created, started_at: created, finished_at: created + 500n };
          return { ...one, ...times, id: firstIdAt(Number(created)), attempt: 10_000 + at, suite_name: 'many' };
        });
        await trx.insertInto('builds').values(rows).execute();
      }
    });
    const { suites, since } = await statisticsOf(db.read, project.id, 'main', later + 2 * hour);
    assert.deepEqual([suites[0]?.builds, since], [2000, later + 1000]);
  });

  test('of a test are its results in the newest builds, and since when it fails', async () => {
    const other = await alice.createProject();
    await alice.createSuite(other, { name: 'unit' });
    const path = `/projects/${other.id}`;
    const report = (name: string, state: TestReport['state'], durationMs: number): TestReport => {
      const of = { class: 'cart', suite: 'unit', file: 'cart.test.js' };
      return { name, ...of, state, durationMs, message: state === 'failed' ? 'wrong' : '' };
    };
    const built = async (sha: string, state: TestReport['state'], took: number, branch = 'main'): Promise<string> => {
      await alice.requestBuild(other, branch);
      const where = { branch, branches: [branch], ref: `refs/heads/${branch}` };
      const head = branch === 'main' ? ('this' as const) : ('kept' as const);
      const commits = { ...aCommit, ...where, sha: sha.repeat(40), defaultHead: head };
      await (
        await runner.take('fetch_commit')
      ).fetched(branch === 'main' ? { ...commits, defaultBranch: 'main' } : commits);
      const task = await runner.take('run_suite');
      const tests = [report('adds', state, took), report('<b>takes</b>', 'passed', 1)];
      await runner.dispatch.tests(runner.self, { claim: task.order.claim, start: 0, tests, isLast: true });
      await task.exit(state === 'failed' ? 1 : 0);
      return String(task.order.work.environment.HEADRACE_BUILD_ID);
    };
    await built('1', 'passed', 10);
    const first = await built('2', 'failed', 20);
    await built('3', 'passed', 30, 'topic');
    const last = await built('4', 'failed', 40);
    const [failed] = (await alice.get(`${path}/builds/${last}/tests?state=failed`)).list;
    const since = failed?.failed_since as Record_;
    assert.deepEqual(since, {
      build_id: BigInt(first),
      build_id_str: first,
      commit_id: since.commit_id,
      commit_id_str: since.commit_id_str,
      commit_ref: '2'.repeat(40),
    });
    const [passed] = (await alice.get(`${path}/builds/${last}/tests?state=passed`)).list;
    assert.equal(passed?.failed_since, null);
    const key = String(failed?.key);
    const { runs, failing_since: failing, ...test_ } = (await alice.get(`${path}/tests/history?key=${key}`)).record;
    assert.deepEqual(test_, { name: 'adds', class: 'cart', suite: 'unit' });
    assert.equal((failing as Record_ | null)?.commit_ref, '2'.repeat(40));
    assert.deepEqual(
      (runs as Record_[]).map(({ state, duration_ms: took, branch }) => [state, took, branch]),
      [
        ['failed', 40, 'main'],
        ['passed', 30, 'topic'],
        ['failed', 20, 'main'],
        ['passed', 10, 'main'],
      ],
    );
    const [today] = (await alice.get(`${path}/tests/trend`)).list.slice(-1);
    assert.deepEqual({ ...today, day: '' }, { day: '', builds: 4, passed: 6, failed: 2, skipped: 0 });
    for (const [wrong, status] of [
      ['000000000000', 404],
      ['xyz', 403],
      ['', 403],
    ] as const)
      assert.equal((await alice.get(`${path}/tests/history?key=${wrong}`)).status, status);
    const stranger = await service.user();
    for (const below of [`tests/history?key=${key}`, 'tests/trend'])
      assert.equal((await stranger.get(`${path}/${below}`)).status, 404);

    const tab = new Tab(service);
    await tab.signIn(alice.credentials);
    const page = (await tab.get(`/ui${path}/tests/history?key=${key}`)).text.replaceAll(/\s+/g, ' ');
    assert.match(page, /Failed since <a href="[^"]*">build \d+<\/a> of <a [^>]*>commit <code>2222222222/);
    assert.match(page, /50 % passed/);
    assert.equal(page.match(/aria-label="(failed|passed) on [0-9]{10} in unit, /g)?.length, 4);
    const ofBuild = (await tab.get(`/ui${path}/builds/${last}/tests`)).text.replaceAll(/\s+/g, ' ');
    assert.match(ofBuild, /Failed since <a [^>]*>build \d+<\/a> of <a [^>]*>commit <code>2222222222/);
    assert.match((await tab.get(`/ui${path}/builds/${first}/tests`)).text, /Began to fail in this build/);
    const markup = String(passed?.key);
    assert.match((await tab.get(`/ui${path}/tests/history?key=${markup}`)).text, /&lt;b&gt;takes&lt;\/b&gt;/);
    for (const wrong of ['%3Cscript%3E', '000000000000', '']) {
      const { status, text } = await tab.get(`/ui${path}/tests/history?key=${wrong}`);
      assert.deepEqual([status, text.includes('No results')], [200, true]);
    }
  });
});
