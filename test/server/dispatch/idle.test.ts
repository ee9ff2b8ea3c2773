import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compiling } from '../../support/compiling.ts';
import { describeWithRunner } from '../../support/runner.ts';

const patient = new AbortController().signal;
/** Less than the look for what was not announced takes. */
const soonMs = 4500;

describeWithRunner('a server that is about to stop', (service, runner) => {
  test('knows at once that the last claim of its runner has ended', async () => {
    const { task } = await compiling(await service.user(), runner);
    const { holder } = runner.self;
    let isIdle = false;
    const idle = runner.dispatch.untilIdle(holder, patient).then(() => (isIdle = true));
    assert.equal(await runner.dispatch.isBusy(holder), true);
    assert.equal(isIdle, false);
    const finishedAt = performance.now();
    await task.finish({ kind: 'uncompilable' });
    await idle;
    assert.ok(performance.now() - finishedAt < soonMs);
  });

  test('knows at once that its runner has lost its claims', async () => {
    await compiling(await service.user(), runner);
    const idle = runner.dispatch.untilIdle(runner.self.holder, patient);
    const lostAt = performance.now();
    await runner.dispatch.holderGone(runner.self.holder);
    await idle;
    assert.ok(performance.now() - lostAt < soonMs);
    await (await runner.take('compile_dependency')).finish({ kind: 'uncompilable' });
  });

  test('waits no longer when it is asked not to', async () => {
    const { task } = await compiling(await service.user(), runner);
    const impatient = new AbortController();
    const idle = runner.dispatch.untilIdle(runner.self.holder, impatient.signal);
    impatient.abort();
    await idle;
    assert.equal(await runner.dispatch.isBusy(runner.self.holder), true);
    await task.finish({ kind: 'uncompilable' });
  });
});
