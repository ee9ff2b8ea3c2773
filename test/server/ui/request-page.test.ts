import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { sql } from 'kysely';
import type { FinishReport } from '../../../src/shared/protocol/index.ts';
import { describeWithRunner } from '../../support/runner.ts';
import { runningBuild } from '../../support/running-build.ts';
import { SuiteRuns } from '../../support/suite-runs.ts';
import { Tab } from '../../support/tab.ts';
import type { User } from '../../support/user.ts';

describeWithRunner('the page of a request', (service, runner) => {
  let alice: User;
  let tab: Tab;
  before(async () => {
    alice = await service.user();
    tab = new Tab(service);
    await tab.signIn(alice.credentials);
  });

  /** What the page says of a build with this log, in which the runner told where its command's output is. */
  const saidOf = async (log: string, output?: FinishReport['output']): Promise<string> => {
    const { project, request, task } = await runningBuild(alice, runner);
    await task.writeLog(log);
    const { claim } = task.order;
    const outcome = { kind: 'exited', status: 0 } as const;
    const report = { claim, outcome, logSize: Buffer.byteLength(log), ...(output && { output }) };
    assert.deepEqual(await runner.dispatch.finish(runner.self, report), { taken: true });
    const { text } = await tab.get(`/ui/projects/${project.id}/requests/${request.id}`);
    assert.match(text, /<summary class="button">Fetch log<\/summary>/);
    const [, said = ''] = /<span class="build-said">(.*?)<\/span>/s.exec(text) ?? assert.fail(text);
    return said.replaceAll(/<[^>]+>/g, '').trim();
  };

  test('shows the last line that the command said, and not what the runner wrote around it', async () => {
    const log = 'Restored the cache.\nall is well\n\nSaved the cache.\n';
    assert.equal(await saidOf(log, { from: 20, to: 33 }), 'all is well');
    assert.equal(await saidOf(log, { from: 20, to: 20 }), '', 'it said nothing');
    assert.equal(await saidOf(log), 'Saved the cache.', 'of a runner that does not tell, the last line of all');
    const long = `${'x'.repeat(5000)}\nthe end`;
    assert.equal(await saidOf(`${long}\nSaved the cache.\n`, { from: 0, to: long.length }), 'the end');
  });

  test('shows nothing of what a runner tells wrongly', async () => {
    for (const output of [
      { from: 9, to: 3 },
      { from: 2 ** 52, to: 2 ** 52 },
      { from: 0, to: 2 ** 52 },
    ])
      assert.ok(['', 'hello'].includes(await saidOf('hello\n', output)), JSON.stringify(output));
  });

  const pageOf = async (path: string): Promise<string> => (await tab.get(path)).text.replaceAll(/\s+/g, ' ');
  const words = (text: string): string =>
    text
      .replaceAll(/<[^>]+>/g, ' ')
      .replaceAll(/\s+/g, ' ')
      .trim();

  test('says in the row of a failed suite which test failed first, or the line that says why', async () => {
    const runs = await SuiteRuns.begin(alice, runner);
    for (const name of ['tests', 'compile', 'quiet', 'good']) await runs.suite({ name });
    const request = await runs.fetched();
    const logs: Record<string, string> = {
      tests: 'running\nError: of no interest\n',
      compile: `${'noise\n'.repeat(20_000)}\u001B[31msrc/a.ts(3,1): error: <b>no</b>\u001B[0m\nError: 2 files\nthe end\n`,
      quiet: 'one\ntwo\n',
      good: 'Error: expected by the test\nall is well\n',
    };
    for (let count = 0; count < 4; count += 1) {
      const task = await runner.take('run_suite');
      const name = String(task.order.work.environment.HEADRACE_SUITE);
      await task.writeLog(logs[name] ?? assert.fail(name));
      if (name === 'tests') {
        const test = { name: 'averages', class: 'Gauge', suite: '', file: '', durationMs: 1, message: '' };
        const [passed, failed] = [
          { ...test, state: 'passed' as const },
          { ...test, state: 'failed' as const },
        ];
        const tests = [passed, { ...failed, name: 'opens <i>', message: '\nexpected 1\nat line 3' }, failed];
        await runner.dispatch.tests(runner.self, { claim: task.order.claim, start: 0, tests, isLast: true });
      }
      await task.exit(name === 'good' ? 0 : 1);
    }
    const text = await pageOf(`/ui${runs.path}/requests/${request.id}`);
    const said = (name: string): string => {
      const row = new RegExp(`<li id="suite-${name}".*?</li>`).exec(text)?.[0] ?? assert.fail(text);
      return words(/<span class="build-said.*?<\/span>/.exec(row)?.[0] ?? assert.fail(row));
    };
    assert.equal(said('tests'), 'Gauge opens &lt;i&gt; expected 1');
    assert.equal(said('compile'), 'src/a.ts(3,1): error: &lt;b&gt;no&lt;/b&gt;');
    assert.equal(said('quiet'), 'two', 'no line reports a failure, so it is the last one');
    assert.equal(said('good'), 'all is well');
  });

  test('shows how long it took and waited, and each suite with its steps, in a drawing and in a table', async () => {
    const runs = await SuiteRuns.begin(alice, runner);
    const compile = await runs.suite({ name: 'compile' });
    await runs.suite({ name: 'unit', 'needs[]': String(compile.id) });
    const rule = { subject: 'commit.branches', operator: 'equals', value: 'release' };
    for (const name of ['notes', 'publish']) {
      const suite = await runs.suite({ name });
      await alice.post(`${runs.path}/suites/${suite.id}/rules`, rule);
    }
    const request = await runs.fetched();
    for (const exit of [0, 1]) await (await runner.take('run_suite')).exit(exit);
    const at = (seconds: number): bigint => BigInt(1_790_000_000_000 + seconds * 1000);
    const steps = JSON.stringify([
      { name: 'install', state: 'passed', from: 5000, to: 20_000 },
      { name: 'try <b>all</b>', state: 'failed', from: 20_000, to: 60_000 },
    ]);
    const times = { created_at: at(0), started_at: at(40), finished_at: at(200) };
    const { db } = service.store;
    await db.transaction(async (trx) => {
      const { id } = request;
      await trx.updateTable('build_requests').set(times).where('id', '=', id).execute();
      await sql`update events set created_at = ${at(10)} where subject_id = ${id} and state = 'fetching'`.execute(trx);
      await sql`update events set created_at = ${at(30)} where subject_id = ${id} and state = 'building'`.execute(trx);
      const builds = trx.updateTable('builds').where('build_request_id', '=', id);
      const [first, second] = [builds.where('suite_name', '=', 'compile'), builds.where('suite_name', '=', 'unit')];
      await first.set({ created_at: at(30), started_at: at(40), finished_at: at(100) }).execute();
      await second.set({ created_at: at(30), started_at: at(140), finished_at: at(200), steps }).execute();
    });
    const path = `/ui${runs.path}/requests/${request.id}`;
    const text = await pageOf(path);
    // 10 s before the fetch, 10 s after it, and 40 s between the two builds.
    assert.match(words(text), /Took 3 min 20 s in all, of which it waited 1 min 0 s/);
    const { record } = await alice.get(`${runs.path}/build_requests/${request.id}/details`);
    assert.deepEqual([record.duration_ms, record.waited_ms], [200_000, 60_000]);
    const [, table = ''] = /<details id="times-table">(.*?)<\/details>/.exec(text) ?? assert.fail(text);
    const rows = Array.from(table.matchAll(/<tr>(.*?)<\/tr>/g), ([, row = '']) => words(row));
    assert.deepEqual(rows.slice(1), [
      'Fetch fetched 10 s – 20 s',
      'compile passed 10 s – 1 min 0 s',
      'unit failed 1 min 50 s 5 s 55 s, 2 steps compile',
    ]);
    const [, drawing = ''] = /<svg viewBox="0 0 1100 88"(.*?)<\/svg>/.exec(text) ?? assert.fail(text);
    assert.equal(drawing.match(/<rect/g)?.length, 8);
    assert.ok(drawing.includes('unit: try &lt;b&gt;all&lt;/b&gt;, 40 s'), drawing);
    // From the end of compile, at half of the time, to where unit began.
    assert.match(drawing, /<path class="edges" d="M680 55V77H848" \/>/);
    const left = /<details id="left-out".*?<\/summary>/.exec(text)?.[0] ?? assert.fail(text);
    assert.match(words(left), /^2 suites left out notes, publish$/);

    // Run again, it counts from then on.
    await alice.post(`${runs.path}/build_requests/${request.id}/rerun`, { failed_only: 'true' });
    await (await runner.take('run_suite')).exit(0);
    assert.match(words(await pageOf(path)), /Took \d s in all/);
    const again = /<details id="times-table">(.*?)<\/details>/.exec(await pageOf(path))?.[1] ?? '';
    assert.deepEqual(
      Array.from(again.matchAll(/builds\/\d+">(\w+)</g), ([, name]) => name),
      ['unit'],
    );
  });

  test('shows a matrix of two variables as a grid, with the rows of what failed below', async () => {
    const runs = await SuiteRuns.begin(alice, runner);
    await runs.suite({ name: 'unit', 'matrix[]': 'NODE=20,22\nDB=a,b', 'matrix_exclude[]': 'NODE=22 DB=b' });
    await runs.suite({ name: 'flat', 'matrix[]': 'N=1,2' });
    const request = await runs.fetched();
    for (const [variant, task] of await runs.take(5)) await task.exit(variant === 'NODE=20 DB=b' ? 1 : 0);
    const text = await pageOf(`/ui${runs.path}/requests/${request.id}`);
    const [, grid = ''] = /<div class="matrix"[^>]*>(.*?)<\/div>/.exec(text) ?? assert.fail(text);
    const rows = Array.from(grid.matchAll(/<tr>(.*?)<\/tr>/g), ([, row = '']) =>
      row
        .replaceAll(/<a [^>]*aria-label="([^"]*)".*?<\/a>/g, '$1;')
        .replaceAll(/<span class="aside">.*?<\/td>/g, '</td>'),
    ).map(words);
    assert.deepEqual(rows, [
      'NODE / DB a b',
      '20 unit (NODE=20 DB=a): passed; unit (NODE=20 DB=b): failed;',
      '22 unit (NODE=22 DB=a): passed; &ndash;',
    ]);
    assert.equal(text.match(/class="matrix"/g)?.length, 1, 'one variable is a list');
    const [, group = ''] = /<li id="variants-unit"(.*?)<li id="variants-flat"/.exec(text) ?? assert.fail(text);
    const [open = '', folded = ''] = group.split('<details id="variants-unit-rest"');
    assert.ok(open.includes('>unit (NODE=20 DB=b)</a>') && !open.includes('>unit (NODE=20 DB=a)</a>'), open);
    assert.ok(folded.includes('>unit (NODE=20 DB=a)</a>') && folded.includes('>unit (NODE=22 DB=a)</a>'), folded);
  });
});
