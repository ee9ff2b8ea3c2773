import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { compiling } from '../support/compiling.ts';
import { ScriptedRunner } from '../support/runner.ts';
import { describeService } from '../support/service.ts';

describeService('a runner that is known to be gone', (service) => {
  let runner: ScriptedRunner;
  before(async () => {
    runner = await ScriptedRunner.start(service.store);
  });
  after(() => runner.dispatch.close());

  test('is not given again what it had, also where its other requests are still held', async () => {
    const { task } = await compiling(await service.user(), runner);
    const held = runner.dispatch.next(runner.self, 'held', new AbortController().signal);
    await runner.dispatch.gone(runner.self.holder);
    assert.deepEqual(await task.finish({ kind: 'uncompilable' }), { gone: true });
    const next = await runner.beside('another').take('compile_dependency');
    assert.equal(await held, undefined);
    await next.finish({ kind: 'uncompilable' });
  });
});
