import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isSlow, slowSince, type StepRun } from '../../../src/server/lifecycle/slow-steps.ts';
import type { Answer } from '../../support/client.ts';
import { describeWithRunner } from '../../support/runner.ts';
import { Tab } from '../../support/tab.ts';

/** The same numbers in each run. */
function jitter(seed: number): () => number {
  let state = seed;
  return () => (state = (state * 1_103_515_245 + 12_345) % 2_147_483_648) / 2_147_483_648;
}

/** Days on which a step became slow in a month of 40 builds a day: seconds by day and build. */
function slowDays(seconds: (day: number, random: () => number) => number, seed: number): number[] {
  const random = jitter(seed);
  const runs: StepRun[] = [];
  const named: number[] = [];
  let medianMs: number | undefined;
  for (let day = 0; day < 30; day += 1)
    for (let build = 0; build < 40; build += 1) {
      const tookMs = seconds(day, random) * 1000;
      runs.unshift({ tookMs, commitId: BigInt(runs.length) });
      if (medianMs !== undefined && isSlow(tookMs, medianMs)) continue;
      medianMs = slowSince(runs)?.medianMs;
      if (medianMs !== undefined) named.push(day);
    }
  return named;
}

/** Most builds vary by a fifth; one in twelve takes up to three times as long, because a machine was busy. */
const noisy = (usual: number, random: () => number): number =>
  usual * (0.9 + 0.2 * random()) * (random() < 1 / 12 ? 1 + 2 * random() : 1);

test('in a month of noise, three planted slow-downs are named on their day, and nothing else', () => {
  assert.deepEqual(
    slowDays((day, random) => noisy(day < 9 ? 60 : 90, random), 1),
    [9],
  );
  assert.deepEqual(
    slowDays((day, random) => noisy(day < 17 ? 300 : 420, random), 2),
    [17],
  );
  assert.deepEqual(
    slowDays((day, random) => noisy(day < 23 ? 20 : 35, random), 3),
    [23],
  );
  for (const [at, usual] of [3, 20, 45, 60, 300, 1800].entries())
    assert.deepEqual(
      slowDays((_, random) => noisy(usual, random), 10 + at),
      [],
      `${usual} s`,
    );
  assert.deepEqual(
    slowDays((day, random) => noisy(day < 9 ? 2 : 6, random), 4),
    [],
    'less than ten seconds more',
  );
  assert.deepEqual(
    slowDays((day, random) => noisy(day < 9 ? 100 : 115, random), 5),
    [],
    'less than 30 % more',
  );
});

test('a median needs five builds before the five', () => {
  const runs = (slow: number, quick: number): StepRun[] =>
    [...Array<number>(slow).fill(60_000), ...Array<number>(quick).fill(20_000)].map((tookMs, at) => ({
      tookMs,
      commitId: BigInt(at),
    }));
  assert.equal(slowSince(runs(5, 4)), undefined);
  assert.equal(slowSince(runs(4, 30)), undefined);
  assert.deepEqual(slowSince(runs(5, 5)), { medianMs: 20_000, first: { tookMs: 60_000, commitId: 4n } });
});

describeWithRunner('steps that become slow', (service, runner) => {
  interface Slow {
    step: string;
    branch: string;
    commit_id_str: string;
    median_ms: number;
    suite_id_str: string;
  }

  const slowOf = (dashboard: Answer): Slow[] => dashboard.record.slow_steps as Slow[];

  test('are on the dashboard with their first slow commit, until they are quick or somebody says Quiet', async () => {
    const alice = await service.user();
    const project = await alice.createProject();
    const suite = await alice.createSuite(project, { name: 'unit' });
    let commits = 0;
    /** Builds a new commit in which the step takes this long. */
    const build = async (seconds: number, state: 'passed' | 'failed' = 'passed'): Promise<string> => {
      commits += 1;
      const sha = commits.toString(16).padStart(40, '0');
      await alice.requestBuild(project);
      await (await runner.take('fetch_commit')).fetched({ sha, message: `Change ${commits}` });
      const task = await runner.take('run_suite');
      const times = { from: 100, to: 100 + seconds * 1000, cpuMs: 1500, memoryPeak: 4096 };
      const usage = { cpuMs: 2500, memoryPeak: 8192, diskWritten: 3, networkReceived: 4, networkSent: 5 };
      const more = { stepStates: [{ name: 'compile', state, ...times }], usage };
      await task.exit(state === 'passed' ? 0 : 1, more);
      return sha;
    };
    const slow = async (): Promise<Slow[]> => slowOf(await alice.get('/dashboard'));
    for (let at = 0; at < 6; at += 1) await build(30);
    const first = await build(50);
    for (let at = 0; at < 3; at += 1) await build(45);
    await build(200, 'failed'); // does not count
    assert.deepEqual(await slow(), []);
    await build(41);
    const [named, ...others] = await slow();
    assert.ok(named && others.length === 0);
    assert.deepEqual([named.step, named.branch, named.median_ms], ['compile', 'main', 30_000]);
    const commit = await alice.get(`/projects/${project.id}/commits/${named.commit_id_str}`);
    assert.equal(commit.record.ref, first);

    const mallory = await service.user();
    assert.deepEqual(slowOf(await mallory.get('/dashboard')), []);
    const quiet = `/projects/${project.id}/suites/${suite.id}/quiet`;
    assert.equal((await mallory.post(quiet, { step: 'compile' })).status, 404);
    const tab = new Tab(service);
    await tab.signIn(alice.credentials);
    const page = await tab.get('/ui/');
    assert.match(page.text, /step <code>compile<\/code>[^]*Before, it usually took 30 s/);
    await tab.submit(page, '/ui/', { do: 'quiet' });
    assert.deepEqual(await slow(), []);
    await build(60);
    assert.deepEqual(await slow(), [], 'it stays quiet while it is slow');
    for (let at = 0; at < 3; at += 1) await build(30);
    for (let at = 0; at < 5; at += 1) await build(60);
    assert.equal((await slow()).length, 1, 'it was quick in between');
    await build(31);
    assert.deepEqual(await slow(), []);
    const refused = await alice.post(quiet, { step: 'compile' });
    assert.deepEqual(refused.body.error, { step: ['invalid_format'] }, 'it is not slow any more');

    const figures = await alice.get(`/projects/${project.id}/suites/${suite.id}/figures`);
    const { builds } = figures.record as unknown as { builds: Record<string, unknown>[] };
    assert.equal(builds.length, commits);
    const { cpu_seconds, memory_peak, disk_written, network_received, network_sent } = builds.at(-1) ?? {};
    assert.deepEqual(
      { cpu_seconds, memory_peak, disk_written, network_received, network_sent },
      { cpu_seconds: 2.5, memory_peak: 8192, disk_written: 3, network_received: 4, network_sent: 5 },
    );
    const settings = await tab.get(`/ui/projects/${project.id}/settings/suites/${suite.id}`);
    for (const title of ['Duration', 'Queue time', 'Processor time', 'Memory', 'Written to disk'])
      assert.match(settings.text, new RegExp(`<figcaption>\\s*${title}`));
    await alice.delete(`/projects/${project.id}/suites/${suite.id}`);
    assert.deepEqual(await slow(), []);
  });
});
