import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compiling } from '../../support/compiling.ts';
import { describeWithRunner } from '../../support/runner.ts';

describeWithRunner('a runner that is known to be gone', (service, runner) => {
  test('is not given again what it had, also where its other places still wait', async () => {
    const { task } = await compiling(await service.user(), runner);
    const held = runner.dispatch.next(runner.self, { claim: 'held' }, new AbortController().signal);
    await runner.dispatch.holderGone(runner.self.holder);
    assert.deepEqual(await task.finish({ kind: 'uncompilable' }), { gone: true });
    const next = await runner.beside('another').take('compile_dependency');
    assert.equal(await held, undefined);
    await next.finish({ kind: 'uncompilable' });
  });
});
