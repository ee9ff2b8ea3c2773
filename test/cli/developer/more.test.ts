import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { describeCommands } from '../../support/commands.ts';
import { compiled } from '../../support/compiling.ts';
import { archiveOf } from '../../support/software.ts';

describeCommands('deploys, dependencies and chosen suites', ['unit', 'lint'], ({ runner, at }) => {
  test('run --suite asks for these suites alone, and explain says so of the others', async () => {
    const suites = (await at.alice.get(`/projects/${at.project.id}/suites`)).list;
    const rule = { subject: 'commit.branches', operator: 'equals', value: 'next' };
    await at.alice.post(`/projects/${at.project.id}/suites/${suites[1]?.id}/rules`, rule);
    const running = at.developer.run(['run', '--wait', '--suite', 'unit', '--json']);
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
    const chosen = await at.developer.run(['explain']);
    assert.equal(
      chosen.out,
      '✓ unit runs\n    All its rules match.\n- lint does not run\n' +
        '    It was not requested: the request names other suites only.\n',
    );
    await at.developer.run(['run']);
    await (await runner.take('fetch_commit')).fetched();
    await (await runner.take('run_suite')).exit(0);
    const explained = await at.developer.run(['explain', 'main']);
    assert.match(explained.out, /Its rule commit\.branches equals next does not match: the commit has main\.\n$/);
  });

  test('deploy finds the strategy and the commit by name, and -f ends with the result', async () => {
    const strategy = await at.alice.createStrategy(at.project, { name: 'live' });
    const asked = await at.developer.run(['deploy', 'live', '--json']);
    assert.equal(asked.status, 0, asked.err);
    const deploy = JSON.parse(asked.out) as { id_str: string; deploy_strategy_id_str: string };
    assert.equal(deploy.deploy_strategy_id_str, String(strategy.id));
    const first = await runner.take('push_deploy');
    await first.finish({ kind: 'pushed' });
    for (const flag of ['--follow', '--wait']) {
      const waiting = at.developer.run(['deploy', 'live', flag]);
      await (await runner.take('push_deploy')).finish({ kind: 'pushed' });
      const { status, out } = await waiting;
      assert.deepEqual([status, out.replace(/\d+/, 'ID')], [0, 'deploy ID to live: deployed\n'], flag);
    }
    const following = at.developer.run(['deploy', 'live', 'c0ffee0', '-f']);
    const second = await runner.take('push_deploy');
    await second.writeLog('! [rejected] main -> production \u001b]0;x\u0007(fetch first)\n');
    await second.finish({ kind: 'refused' });
    const { status, out } = await following;
    assert.equal(status, 1, out);
    assert.match(out, /^! \[rejected\] main -> production \(fetch first\)\ndeploy \d+ to live: failed\n$/);
    const unknown = await at.developer.run(['deploy', 'live', 'deadbeef']);
    assert.equal(unknown.status, 2);
  });

  test('dependency upload sends the archive, and ends with its compile', async () => {
    const file = join(at.developer.folder, 'lua.tar.gz');
    writeFileSync(file, await archiveOf({ hello: 'hello\n'.repeat(100_000) }));
    await at.alice.createDependency({ name: 'lua' });
    const uploading = at.developer.sit(['dependency', 'upload', 'lua', file], { columns: 60 });
    const task = await runner.take('compile_dependency');
    await task.writeLog('compiling lua\n');
    await compiled(runner, task);
    assert.equal(await uploading.end(), 0, uploading.text);
    const lines = uploading.text.split('\n');
    assert.match(lines[0] ?? '', /^uploading lua █+ 100% [\d.]+ k?B/);
    assert.deepEqual(lines.slice(1), ['compiling lua', 'dependency lua: compiled']);

    const again = at.developer.run(['dependency', 'upload', 'lua', file, '--wait']);
    const failing = await runner.take('compile_dependency');
    await failing.finish({ kind: 'uncompilable' });
    const failed = await again;
    assert.equal(failed.status, 1);
    assert.match(failed.out, /^uploading lua: [\d.]+ k?B of [\d.]+ k?B\ndependency lua: compile_failed\n$/);

    writeFileSync(file, 'no archive');
    const refused = await at.developer.run(['dependency', 'upload', 'lua', file]);
    assert.equal(refused.status, 2);
    assert.match(refused.err, /archive is not valid/);
    const missing = await at.developer.run(['dependency', 'upload', 'nothing', file]);
    assert.deepEqual([missing.status, /You have no dependency nothing/.test(missing.err)], [2, true]);
  });
});
