import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import type { Brief } from '../../../src/shared/records/brief.ts';
import type { Record_ } from '../../support/client.ts';
import { describeWithRunnerOnOne } from '../../support/runner.ts';
import type { User } from '../../support/user.ts';

const megabyte = 1024 * 1024;
/** What the main thread may need at once, and as much again for a busy machine. */
const longestDelay = 500;

describeWithRunnerOnOne('briefs of hostile logs', (service, runner) => {
  let alice: User;
  let project: Record_;
  let count = 0;
  before(async () => {
    alice = await service.user();
    project = await alice.createProject();
    await alice.createSuite(project, { name: 'unit', command: 'make' });
  });
  const run = async (pieces: Iterable<Buffer>, status: number): Promise<string> => {
    await alice.post(`/projects/${project.id}/build_requests`, { commit_ref: 'main' });
    count += 1;
    await (await runner.take('fetch_commit')).fetched({ sha: `${count}`.padStart(40, 'a') });
    const task = await runner.take('run_suite');
    for (const piece of pieces) await task.writeLog(piece);
    await task.exit(status);
    return task.order.work.environment.HEADRACE_BUILD_ID ?? '';
  };
  /** Others are answered meanwhile. */
  const answered = async (path: string): Promise<Record_> => {
    const asking = alice.get(`/projects/${project.id}/builds/${path}`);
    const state = { isOver: false };
    let longest = 0;
    const done = asking.finally(() => (state.isOver = true));
    while (!state.isOver) {
      const beganAt = performance.now();
      await alice.get('/ping');
      longest = Math.max(longest, performance.now() - beganAt);
    }
    const { status, record } = await done;
    assert.equal(status, 200);
    assert.ok(longest < longestDelay, `another call took ${longest} ms`);
    return record;
  };
  function* repeated(times: number, piece: (at: number) => string): Generator<Buffer> {
    for (let at = 0; at < times; at += 1) yield Buffer.from(piece(at));
  }

  test('one line of 100 MB', async () => {
    await run([Buffer.from('fine\n')], 0);
    const text = 'a1/'.repeat(megabyte / 3);
    const id = await run(
      repeated(100, () => text),
      1,
    );
    const { lines } = (await answered(`${id}/brief`)) as unknown as Brief;
    assert.deepEqual(
      lines.map(({ number, new: isNew }) => [number, isNew]),
      [[1, true]],
    );
    const { hunks } = await answered(`${id}/log/diff`);
    assert.equal((hunks as unknown[]).length, 1);
  });

  test('a million lines that no other log has, with the failure among them', async () => {
    const letters = (at: number): string =>
      at.toString().replaceAll(/\d/g, (digit) => 'abcdefghij'.charAt(Number(digit)));
    const linesFrom = (at: number): string =>
      `${Array.from({ length: 20_000 }, (_, line) => letters(at * 20_000 + line)).join('\n')}\n`;
    function* million(): Generator<Buffer> {
      for (let at = 0; at < 50; at += 1)
        yield Buffer.from(at === 25 ? `${linesFrom(at)}error: the gate is shut\n` : linesFrom(at));
    }
    const id = await run(million(), 1);
    const { lines, truncated } = (await answered(`${id}/brief`)) as unknown as Brief;
    assert.ok(lines.some(({ text, new: isNew }) => isNew && text === 'error: the gate is shut'));
    assert.equal(truncated, true);
    const { hunks, complete } = await answered(`${id}/log/diff`);
    assert.ok((hunks as unknown[]).length > 0);
    assert.equal(complete, false);
  });

  test('two logs whose lines all differ', async () => {
    const green = await run(
      repeated(20, (at) => `only ${'green '.repeat(10)}${at}\n`.repeat(10_000)),
      0,
    );
    const id = await run(
      repeated(20, (at) => `only ${'red '.repeat(10)}${at}\n`.repeat(10_000)),
      1,
    );
    const { with_id_str: other, complete } = await answered(`${id}/log/diff`);
    assert.deepEqual([other, complete], [green, false]);
  });
});
