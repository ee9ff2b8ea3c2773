import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import type { Outcome } from '../../../src/shared/protocol/index.ts';
import { aCommit, describeWithRunnerOnOne, type Task } from '../../support/runner.ts';
import { compiling } from '../../support/compiling.ts';
import { runningBuild } from '../../support/running-build.ts';
import type { User } from '../../support/user.ts';

const megabyte = 1024 * 1024;
const limit = 2 * megabyte;
const tooLong: Outcome = { kind: 'cut_short', reason: 'log_too_long' };
const words =
  'The log was cut here and the job was ended, because a log may have at most 2 MB. Print less, or write long output to a file.';

/** The server's half: a runner need not be the one that we know. */
describeWithRunnerOnOne(
  'a log',
  (service, runner) => {
    let alice: User;
    before(async () => {
      alice = await service.user();
    });

    /** Sends a log to the byte as long as it may be, and then what is too much. */
    const flood = async (task: Task): Promise<Buffer> => {
      assert.equal(task.order.logLimit, limit);
      const line = Buffer.alloc(megabyte, 'all that it says\n');
      await task.writeLog(line);
      assert.deepEqual(await task.send(megabyte, Buffer.concat([line, Buffer.from('more')])), {
        refused: 'log_too_long',
        size: limit,
      });
      assert.deepEqual(
        await task.send(megabyte, line),
        { taken: true },
        'what is there is there, also the second time',
      );
      assert.deepEqual(await task.send(limit, line), { refused: 'log_too_long', size: limit });
      return Buffer.concat([line, line]);
    };
    const sizeOf = async (id: bigint): Promise<number> => {
      const rows = await service.store.db.read
        .selectFrom('log_chunks')
        .select('bytes')
        .where('log_id', '=', id)
        .execute();
      return rows.reduce((sum, { bytes }) => sum + bytes.length, 0);
    };

    test('of a build ends at its limit, whatever the runner sends, and what was said until then is kept', async () => {
      const { task, path, id } = await runningBuild(alice, runner);
      const said = await flood(task);
      for (let tries = 0; tries < 20; tries += 1) await task.send(limit, Buffer.alloc(megabyte));
      assert.equal(await sizeOf(id), limit);
      assert.deepEqual(await task.finishAt(limit, tooLong), { taken: true });
      const build = (await alice.get(path)).record;
      assert.deepEqual([build.build_state, build.failure_reason, build.exit_status], ['failed', 'log_too_long', null]);
      const text = (await alice.get(`${path}/log.txt`)).bytes;
      assert.deepEqual(text.subarray(0, limit), said);
      assert.equal(text.subarray(limit).toString(), `\n${words}\n`);
      const { size, complete } = (await alice.get(`${path}/log?offset=${limit}`)).response as Record<string, unknown>;
      assert.deepEqual([size, complete], [text.length, true]);
    });

    test('that is as long as it may be is not too long', async () => {
      const { task, path } = await runningBuild(alice, runner);
      await task.writeLog(Buffer.alloc(megabyte, 'x'));
      await task.writeLog(Buffer.alloc(megabyte, 'x'));
      await task.exit(0);
      assert.equal((await alice.get(path)).record.build_state, 'passed');
      assert.equal((await alice.get(`${path}/log.txt`)).bytes.length, limit);
    });

    test('of a compile that is too long ends the compile, in words', async () => {
      const { task, path } = await compiling(alice, runner);
      await flood(task);
      assert.deepEqual(await task.finishAt(limit, tooLong), { taken: true });
      assert.equal((await alice.get(path)).record.marketplace_state, 'compile_failed');
      assert.ok((await alice.get(`${path}/log.txt`)).text.endsWith(`\n${words}\n`));
    });

    test('of a fetch that is too long ends the request, in words', async () => {
      const project = await alice.createProject();
      const request = await alice.requestBuild(project);
      const task = await runner.take('fetch_commit');
      await flood(task);
      assert.deepEqual(await task.finishAt(limit, tooLong), { taken: true });
      const path = `/projects/${project.id}/build_requests/${request.id}`;
      assert.equal((await alice.get(path)).record.build_state, 'errored');
      assert.ok((await alice.get(`${path}/log.txt`)).text.endsWith(`\n${words}\n`));
    });

    test('of a deploy that is too long ends the deploy, and says what to look at', async () => {
      const { project, task } = await runningBuild(alice, runner);
      await task.exit(0);
      const strategy = await alice.createStrategy(project);
      const [commit] = (await alice.get(`/projects/${project.id}/commits`)).list;
      assert.equal(commit?.ref, aCommit.sha);
      const form = { deploy_strategy_id: strategy.id, commit_id: commit.id };
      const deploy = (await alice.post(`/projects/${project.id}/deploys`, form)).record;
      const push = await runner.take('push_deploy');
      await flood(push);
      assert.deepEqual(await push.finishAt(limit, tooLong), { taken: true });
      const path = `/projects/${project.id}/deploys/${deploy.id}`;
      assert.equal((await alice.get(path)).record.state, 'failed');
      const text = (await alice.get(`${path}/log.txt`)).text.slice(limit);
      assert.equal(text, `\n${words} A push was interrupted: check the remote branch to see whether it arrived.\n`);
    });
  },
  { logBytes: limit },
);
