import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { before, test } from 'node:test';
import type { Record_ } from '../../support/client.ts';
import { longestTurn } from '../../support/event-loop.ts';
import { aCommit, describeWithRunner } from '../../support/runner.ts';
import type { User } from '../../support/user.ts';

/** It is met by the end of this text, after half a second: at every character it may have begun at each of the last 250. */
const costly = '(?s)a.{250}[cd]';
const noise = createHash('shake256', { outputLength: 15_000 }).update('').digest();
const message = `${Array.from(noise, (byte) => 'ab \n'[byte & 3]).join('')}a${'b'.repeat(250)}c`;
const sha = (digit: string): string => digit.repeat(40);

describeWithRunner('rules that take long to compare with a commit', (service, runner) => {
  let alice: User;
  let bob: User;
  before(async () => {
    [alice, bob] = [await service.user(), await service.user()];
  });

  const projectWith = async (rules: Record<string, [subject: string, operator: string, value: string][]>) => {
    const project = await alice.createProject();
    for (const [name, list] of Object.entries(rules)) {
      const suite = await alice.createSuite(project, { name });
      for (const [subject, operator, value] of list)
        await alice.post(`/projects/${project.id}/suites/${suite.id}/rules`, { subject, operator, value });
    }
    return project;
  };
  const buildsOf = ({ id }: Record_) =>
    service.store.db.read.selectFrom('builds').selectAll().where('build_request_id', '=', id).execute();

  test('hold up nobody, and end in a build that says which rule it was [promise: account-turns]', async () => {
    const project = await projectWith({
      costly: Array.from({ length: 20 }, () => ['commit.message', 'matches', costly]),
      plain: [['commit.branches', 'equals', 'main']],
      other: [['commit.branches', 'equals', 'release']],
    });
    const request = await alice.requestBuild(project);
    const task = await runner.take('fetch_commit');
    const fetching = longestTurn(() =>
      task.finish({ kind: 'fetched', commit: { ...aCommit, sha: sha('1'), message } }),
    );
    let isOver = false;
    void fetching.finally(() => (isOver = true));
    // Whoever writes meanwhile is not kept waiting either.
    await bob.createProject();
    assert.equal(isOver, false, 'others were answered only when all was over');
    const { longestMs } = await fetching;
    assert.ok(longestMs < 500, `${longestMs}`);

    const made = await buildsOf(request);
    assert.deepEqual(made.map(({ build_state: state }) => state).toSorted(), ['enqueued', 'errored']);
    const errored = made.find(({ build_state: state }) => state === 'errored') ?? assert.fail();
    assert.equal(errored.failure_reason, 'rule_too_slow');
    const log = await alice.get(`/projects/${project.id}/builds/${errored.id}/log`);
    assert.match(log.text, /the rule commit\.message matches \(\?s\)a\.\{250\}\[cd\] takes too long/);

    const explaining = await longestTurn(() =>
      alice.get(`/projects/${project.id}/build_requests/${request.id}/explanation`),
    );
    assert.ok(explaining.longestMs < 500, `${explaining.longestMs}`);
    const why = Object.fromEntries(explaining.result.list.map(({ name, why: words }) => [name, words]));
    assert.match(String(why.costly), /took too long/);
    assert.match(String(why.plain), /All its rules match/);
    assert.match(String(why.other), /commit\.branches equals release does not match/);
    await (await runner.take('run_suite')).finish({ kind: 'exited', status: 0 });
  });

  test('are judged again for a commit that is known, in the same way', async () => {
    const project = await projectWith({ late: [['commit.message', 'matches', 'z$']] });
    await alice.requestBuild(project);
    const task = await runner.take('fetch_commit');
    await task.finish({ kind: 'fetched', commit: { ...aCommit, sha: sha('2'), message } });
    const suite = await alice.createSuite(project, { name: 'wide' });
    const rule = { subject: 'commit.message', operator: 'matches', value: 'c$' };
    await alice.post(`/projects/${project.id}/suites/${suite.id}/rules`, rule);
    const { result: request, longestMs } = await longestTurn(() => alice.requestBuild(project, sha('2')));
    assert.ok(longestMs < 500, `${longestMs}`);
    const [build, ...more] = await buildsOf(request);
    assert.deepEqual([build?.build_state, more.length], ['enqueued', 0]);
    await (await runner.take('run_suite')).finish({ kind: 'exited', status: 0 });
  });
});
