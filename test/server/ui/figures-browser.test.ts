import { after, before, describe, test } from 'node:test';
import { assertAccessible } from '../../support/accessibility.ts';
import { TestBrowser } from '../../support/browser.ts';
import { onOneDatabase } from '../../support/databases.ts';
import { ScriptedRunner } from '../../support/runner.ts';
import { Service } from '../../support/service.ts';

describe('what builds used, in a real browser', () => {
  onOneDatabase((database) => {
    // What a browser does depends on no database.
    if (database.kind !== 'sqlite') return;
    const service = new Service(database);
    const browser = new TestBrowser(database);
    let runner: ScriptedRunner;
    before(async () => {
      await service.start();
      runner = await ScriptedRunner.start(service.store);
    });
    after(() => runner.dispatch.close());

    test('curves, the figures of steps and the notice fit a phone and are accessible', async () => {
      const owner = await service.user();
      const project = await owner.createProject();
      const steps = { 'steps[0][name]': 'compile', 'steps[0][command]': 'make', 'steps[1][name]': 'test' };
      const suite = await owner.createSuite(project, { ...steps, 'steps[1][command]': 'make test', command: '' });
      let build = '';
      for (let at = 0; at < 14; at += 1) {
        await owner.requestBuild(project);
        await (await runner.take('fetch_commit')).fetched({ sha: String(at).padStart(40, '0') });
        const task = await runner.take('run_suite');
        build = task.order.work.environment.HEADRACE_BUILD_ID ?? '';
        const between = 20_000 + 700 * (at % 4) + (at < 9 ? 0 : 25_000);
        const took = { cpuMs: between / 2, memoryPeak: 2 ** 27 + at * 2 ** 22 };
        await task.exit(at === 4 ? 1 : 0, {
          usage: { ...took, diskWritten: 1e9 * (at + 1), networkReceived: 5e6 * at, networkSent: 1200 },
          stepStates: [
            { name: 'compile', state: 'passed', from: 10, to: between, ...took },
            { name: 'test', state: at === 4 ? 'failed' : 'passed', from: between, to: between + 4000, cpuMs: 900 },
          ],
        });
      }
      const signIn = (options = {}) => browser.signIn(service.address, owner.credentials, options);
      const page = await signIn();
      await page.goto(`${service.address}/ui/`);
      await page.getByText('Slower than before').waitFor();
      const at = `${service.address}/ui/projects/${project.id}`;
      await assertAccessible(signIn, [
        `${service.address}/ui/`,
        `${at}/builds/${build}/details`,
        `${at}/settings/suites/${suite.id}`,
      ]);
    });
  });
});
