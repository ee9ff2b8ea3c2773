import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { Record_ } from '../support/client.ts';
import { compiled } from '../support/compiling.ts';
import { onEveryDatabase } from '../support/databases.ts';
import { Developer } from '../support/developer.ts';
import { ScriptedRunner } from '../support/runner.ts';
import { Service } from '../support/service.ts';
import { archiveOf } from '../support/software.ts';
import type { User } from '../support/user.ts';

describe('deploys, dependencies and chosen suites', () => {
  onEveryDatabase((database) => {
    if (database.kind !== 'sqlite') return; // nothing here depends on it
    const service = new Service(database);
    const runner = new ScriptedRunner();
    let alice: User;
    let project: Record_;
    let developer: Developer;
    before(async () => {
      await service.start();
      await runner.begin(service.store);
      alice = await service.user();
      project = await alice.createProject({ name: 'Sluice', repository_url: 'git@example.org:team/sluice.git' });
      for (const name of ['unit', 'lint']) await alice.createSuite(project, { name });
      developer = await Developer.of(service, alice);
      developer.clone('git@example.org:team/sluice.git');
    });
    after(() => runner.dispatch.close());

    test('run --suite asks for these suites alone, and explain says so of the others', async () => {
      const suites = (await alice.get(`/projects/${project.id}/suites`)).list;
      const rule = { subject: 'commit.branches', operator: 'equals', value: 'next' };
      await alice.post(`/projects/${project.id}/suites/${suites[1]?.id}/rules`, rule);
      const running = developer.run(['run', '-f', '--suite', 'unit', '--json']);
      await (await runner.take('fetch_commit')).fetched();
      const task = await runner.take('run_suite');
      assert.equal(task.order.work.environment.HEADRACE_SUITE, 'unit');
      await task.exit(0);
      const { status, out } = await running;
      assert.equal(status, 0);
      const { builds } = JSON.parse(out) as { builds: { suite: string; build_state: string }[] };
      assert.deepEqual(
        builds.map(({ suite, build_state: state }) => [suite, state]),
        [['unit', 'passed']],
      );
      const chosen = await developer.run(['explain']);
      assert.equal(
        chosen.out,
        '✓ unit runs\n    All its rules are met.\n- lint does not run\n' +
          '    It was not asked for: the build is one of some suites only.\n',
      );
      await developer.run(['run']);
      await (await runner.take('fetch_commit')).fetched();
      await (await runner.take('run_suite')).exit(0);
      const explained = await developer.run(['explain', 'main']);
      assert.match(explained.out, /Its rule commit\.branches equals next is not met: the commit has main\.\n$/);
    });

    test('deploy finds the strategy and the commit by name, and -f ends with the result', async () => {
      const strategy = await alice.createStrategy(project, { name: 'live' });
      const asked = await developer.run(['deploy', 'live', '--json']);
      assert.equal(asked.status, 0, asked.err);
      const deploy = JSON.parse(asked.out) as { id_str: string; deploy_strategy_id_str: string };
      assert.equal(deploy.deploy_strategy_id_str, String(strategy.id));
      const first = await runner.take('push_deploy');
      await first.finish({ kind: 'pushed' });
      const following = developer.run(['deploy', 'live', 'c0ffee0', '-f']);
      const second = await runner.take('push_deploy');
      await second.say('! [rejected] main -> production \u001b]0;x\u0007(fetch first)\n');
      await second.finish({ kind: 'refused' });
      const { status, out } = await following;
      assert.equal(status, 1, out);
      assert.match(out, /^! \[rejected\] main -> production \(fetch first\)\ndeploy \d+ to live: failed\n$/);
      const unknown = await developer.run(['deploy', 'live', 'deadbeef']);
      assert.equal(unknown.status, 2);
    });

    test('dependency upload sends the archive, and ends with its compile', async () => {
      const file = join(developer.folder, 'lua.tar.gz');
      writeFileSync(file, await archiveOf({ hello: 'hello\n'.repeat(100_000) }));
      await alice.createDependency({ name: 'lua' });
      const uploading = developer.sit(['dependency', 'upload', 'lua', file], { columns: 60 });
      const task = await runner.take('compile_dependency');
      await task.say('compiling lua\n');
      await compiled(runner, task);
      assert.equal(await uploading.end(), 0, uploading.text);
      const lines = uploading.text.split('\n');
      assert.match(lines[0] ?? '', /^uploading lua █+ 100% [\d.]+ k?B/);
      assert.deepEqual(lines.slice(1), ['compiling lua', 'dependency lua: compiled']);

      const again = developer.run(['dependency', 'upload', 'lua', file]);
      const failing = await runner.take('compile_dependency');
      await failing.finish({ kind: 'uncompilable' });
      const failed = await again;
      assert.equal(failed.status, 1);
      assert.match(failed.out, /^uploading lua: [\d.]+ k?B of [\d.]+ k?B\ndependency lua: compile_failed\n$/);

      writeFileSync(file, 'no archive');
      const refused = await developer.run(['dependency', 'upload', 'lua', file]);
      assert.equal(refused.status, 2);
      assert.match(refused.err, /archive is not valid/);
      const missing = await developer.run(['dependency', 'upload', 'nothing', file]);
      assert.deepEqual([missing.status, /You have no dependency nothing/.test(missing.err)], [2, true]);
    });
  });
});
