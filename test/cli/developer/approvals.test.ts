import assert from 'node:assert/strict';
import { test } from 'node:test';
import { describeCommands } from '../../support/commands.ts';
import { Developer } from '../../support/developer.ts';
import { aCommit } from '../../support/runner.ts';

describeCommands('approvals, restarts and suites of a branch', ['unit'], ({ service, runner, at }) => {
  const file = { path: '.headrace.toml', before: null };
  const fetch = async (text?: string) => {
    const task = await runner.take('fetch_commit');
    const commit = { ...aCommit, sha: 'b'.repeat(40), defaultHead: 'none' as const, branches: ['main'] };
    await task.finish({ kind: 'fetched', commit, ...(text !== undefined && { config: { ...file, text } }) });
  };

  test('run -f says where to approve, and approve and restart do so', async () => {
    await at.alice.createSuite(at.project, { name: 'ship', approval: 'true' });
    const running = at.developer.run(['run', '-f']);
    await (await runner.take('fetch_commit')).fetched();
    await (await runner.take('run_suite')).exit(0);
    const approve = async (): Promise<string> => {
      for (;;) {
        const { status, out, err } = await at.developer.run(['approve']);
        if (status === 0) return out;
        assert.match(err, /does not wait for approval: it is (building|enqueued)/);
      }
    };
    assert.match(await approve(), /^ship is approved\. Follow it with: headrace logs \d+ --follow\n$/);
    await (await runner.take('run_suite')).exit(1);
    const { status, out } = await running;
    assert.equal(status, 1);
    assert.match(out, /^ship: waiting_for_approval, approve it at https?:\/\/\S+\/ui\/projects\/\d+\/builds\/\d+$/m);
    const again = await at.developer.run(['approve', 'ship']);
    assert.deepEqual([again.status, again.err], [2, 'headrace: ship does not wait for approval: it is failed.\n']);

    const restarting = at.developer.run(['restart', 'unit', '-f']);
    await (await runner.take('run_suite')).exit(0);
    const restarted = await restarting;
    assert.equal(restarted.status, 0, restarted.err);
    assert.match(restarted.out, /build \d+ of unit: passed\n$/);
    const none = await at.developer.run(['logs', 'unit', '--service', 'db']);
    assert.deepEqual([none.status, none.err], [2, 'headrace: unit has no service db. It has: none\n']);
  });

  test('a suite of the file of a branch is chosen by its name, and one that it lacks is told', async () => {
    await at.alice.put(`/projects/${at.project.id}`, { config_file: '.headrace.toml' });
    const text = '[[suites]]\nname = "fresh"\ncommand = "make"\n[[suites]]\nname = "other"\ncommand = "make"\n';
    const running = at.developer.run(['run', '-f', '--suite', 'fresh']);
    await fetch(text);
    const task = await runner.take('run_suite');
    assert.equal(task.order.work.environment.HEADRACE_SUITE, 'fresh');
    await task.exit(0);
    assert.equal((await running).status, 0);
    await runner.assertIdle();

    const lacking = at.developer.run(['run', '-f', '--suite', 'unit']);
    await fetch(text);
    const { status, err } = await lacking;
    assert.deepEqual([status, err], [2, 'headrace: main has no suite unit. It has: fresh, other\n']);

    const leaving = at.developer.run(['run', '--suite', 'unit']);
    await fetch(text);
    const left = await leaving;
    assert.deepEqual(
      [left.status, left.out, left.err],
      [2, '', 'headrace: main has no suite unit. It has: fresh, other\n'],
    );
    const asking = at.developer.run(['run', '--suite', 'fresh']);
    await fetch(text);
    assert.match((await asking).out, /^Requested a build of main in Sluice\./);
    await (await runner.take('run_suite')).exit(0);
    const broken = at.developer.run(['run', '--suite', 'fresh']);
    await fetch('[[suites]]\nname = 1\n');
    assert.equal((await broken).status, 3);

    await at.developer.run(['run']);
    await fetch('[[suites]]\nname = 1\n');
    const explained = await at.developer.run(['explain']);
    assert.match(explained.out, /^\.headrace\.toml of the commit has a mistake, so nothing was built\./);
  });

  test('approve approves a deploy, but not for who asked for it', async () => {
    const bob = await service.user();
    await at.alice.invite(at.project, bob);
    await at.alice.put(`/projects/${at.project.id}`, { config_file: '' });
    const asking = at.alice.requestBuild(at.project, 'c'.repeat(40));
    await (
      await runner.take('fetch_commit')
    ).fetched({ sha: 'c'.repeat(40), branches: ['main'], defaultBranch: 'main' });
    await (await runner.take('run_suite')).exit(0);
    await asking;
    await at.alice.createStrategy(at.project, { name: 'live', approval: 'true' });
    const deploy = async (by: Developer) => {
      const asked = await by.run(['deploy', 'live']);
      assert.equal(asked.status, 0, asked.err);
      const [, id = ''] = /^Deploy (\d+) to live waits for approval: headrace approve \d+\n$/.exec(asked.out) ?? [];
      assert.notEqual(id, '', asked.out);
      return id;
    };
    const id = await deploy(at.developer);
    const own = await at.developer.run(['approve', id]);
    const refusal = `headrace: You may not approve deploy ${id}. ${at.alice.email} requested it, and another user of the project must approve it.\n`;
    assert.deepEqual([own.status, own.err], [2, refusal]);
    const other = await Developer.of(service, bob);
    other.clone('git@example.org:team/sluice.git');
    const approved = await other.run(['approve']);
    assert.match(approved.out, new RegExp(`^Deploy ${id} to live is approved\\. See \\S+/deploys/${id}\n$`));
    assert.equal(approved.status, 0);
    await (await runner.take('push_deploy')).finish({ kind: 'pushed' });
    const again = await other.run(['approve', id]);
    assert.match(again.err, /does not wait for approval: it is \w+/);
  });
});
