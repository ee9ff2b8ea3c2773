import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import type { Brief } from '../../../src/shared/records/brief.ts';
import type { Record_ } from '../../support/client.ts';
import { describeWithRunnerOnOne } from '../../support/runner.ts';
import type { User } from '../../support/user.ts';

const folder = join(import.meta.dirname, '../../corpus/briefs');
const names = readdirSync(folder).filter((name) => existsSync(join(folder, name, 'planted')));
const wanted = 57 / 60;

describeWithRunnerOnOne('briefs of real tools', (service, runner) => {
  let alice: User;
  before(async () => {
    alice = await service.user();
  });

  test('have the planted line in at least 57 of 60', async () => {
    const missed: string[] = [];
    for (const name of names) {
      const file = (of: string): Buffer => readFileSync(join(folder, name, of));
      const project: Record_ = await alice.createProject();
      await alice.createSuite(project, { name: 'unit', command: 'make' });
      let count = 0;
      const run = async (log: Buffer, status: number): Promise<string> => {
        await alice.post(`/projects/${project.id}/build_requests`, { commit_ref: 'main' });
        count += 1;
        await (await runner.take('fetch_commit')).fetched({ sha: `${count}`.padStart(40, 'a') });
        const task = await runner.take('run_suite');
        await task.writeLog(log);
        await task.exit(status, { output: { from: 0, to: log.length } });
        return task.order.work.environment.HEADRACE_BUILD_ID ?? '';
      };
      for (const green of ['green.log', 'green2.log'])
        if (existsSync(join(folder, name, green))) await run(file(green), 0);
      const red = await run(file('red.log'), 1);
      const { record, status } = await alice.get(`/projects/${project.id}/builds/${red}/brief`);
      assert.equal(status, 200);
      const { lines } = record as unknown as Brief;
      const planted = file('planted').toString().trim();
      if (!lines.some(({ text }) => text.includes(planted))) missed.push(`${name}: ${planted}`);
      if (process.env.SHOW === name) process.stderr.write(`${JSON.stringify(record, null, 1)}\n`);
    }
    if (missed.length > 0) process.stderr.write(`not in the brief:\n${missed.join('\n')}\n`);
    assert.ok(names.length - missed.length >= Math.ceil(names.length * wanted), missed.join('\n'));
  });
});
