import assert from 'node:assert/strict';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { onEveryDatabase } from '../../support/databases.ts';
import { compiled, compiling } from '../../support/compiling.ts';
import { ScriptedRunner } from '../../support/runner.ts';
import { Service } from '../../support/service.ts';
import { archiveOf } from '../../support/software.ts';
import type { User } from '../../support/user.ts';
import type { Record_ } from '../../support/client.ts';

/*
 * Work that has to wait for a compile is put off for minutes. Whoever takes it in these tests is given up after seconds:
 * so it is begun because somebody was told, on whichever server, and not because somebody looked now and then.
 */
describe('work that waits for a compile', () => {
  onEveryDatabase((database) => {
    let alice: User;
    /** Of two servers on the same database, where there can be two. */
    let runners: [ScriptedRunner, ScriptedRunner];
    before(async () => {
      const url = database.kind === 'postgres' ? { database_url: await database.emptyUrl() } : {};
      const first = new Service(database, { settings: url });
      await first.start();
      const shared = { ...url, master_key_file: join(first.folder, 'master.key') };
      const second = database.kind === 'postgres' ? new Service(database, { settings: shared }) : first;
      if (second !== first) await second.start();
      runners = [await ScriptedRunner.start(first.store), await ScriptedRunner.start(second.store)];
      for (const { dispatch } of runners) database.afterwards(() => dispatch.close());
      alice = await first.user();
    });

    /** A suite with a dependency whose compile is under way, and a build of it that was put off. */
    const waitingSuite = async (name: string) => {
      const [here] = runners;
      const compile = await compiling(alice, here, { name });
      const project = await alice.createProject();
      const suite = await alice.createSuite(project);
      const attached = `/projects/${project.id}/suites/${suite.id}/dependencies`;
      await alice.post(attached, { dependency_id: compile.dependency.id });
      await alice.requestBuild(project);
      await (await here.take('fetch_commit')).fetched();
      await here.assertIdle();
      return { ...compile, attached, project };
    };
    const exit = async (runner: ScriptedRunner): Promise<void> => {
      const build = await runner.take('run_suite');
      await build.exit(0);
    };

    test('is begun when that ends, by whoever waits on any server', async () => {
      const { task } = await waitingSuite('awaited');
      const [here, there] = runners;
      const begun = exit(there);
      await compiled(here, task, 'awaited');
      await begun;
    });

    test('is looked at anew when that fails, and says why it cannot be done', async () => {
      const { task, project } = await waitingSuite('failing');
      await task.finish({ kind: 'uncompilable' });
      await runners[1].assertIdle();
      const [commit] = (await alice.get(`/projects/${project.id}/commits`)).list;
      const [build] = (await alice.get(`/projects/${project.id}/commits/${commit?.id}/builds`)).list;
      assert.equal(build?.failure_reason, 'dependency_not_compiled');
    });

    test('is begun when the dependency is detached', async () => {
      const { task, attached, dependency } = await waitingSuite('detached');
      const [here, there] = runners;
      const begun = exit(there);
      assert.equal((await alice.delete(`${attached}/${dependency.id}`)).status, 200);
      await begun;
      await compiled(here, task, 'detached');
    });

    test('is begun however its being put off and the end of what it waits for fall together', async () => {
      const [here, there] = runners;
      for (let round = 0; round < 8; round += 1) {
        const base = await compiling(alice, here, { name: `base ${round}` });
        const related = { 'related_dependencies[]': String(base.dependency.id) };
        const top: Record_ = await alice.createDependency({ name: `top ${round}`, ...related });
        const archive = await archiveOf({ x: String(round) });
        const [, , task] = await Promise.all([
          alice.upload(top, archive),
          compiled(here, base.task, `base ${round}`),
          there.take('compile_dependency'),
        ]);
        await compiled(there, task, `top ${round}`);
      }
    });
  });
});
