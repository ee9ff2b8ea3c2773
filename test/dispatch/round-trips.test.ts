import assert from 'node:assert/strict';
import { test } from 'node:test';
import { onEveryDatabase } from '../support/databases.ts';
import { tapWire } from '../support/postgres-wire.ts';
import { ScriptedRunner } from '../support/runner.ts';
import { Service } from '../support/service.ts';

/*
 * What one build costs the database, from the request for it to its end: how many statements, and how many answers are
 * waited for. These may become less. Where they have to become more, say why in docs/performance.md.
 */
const most = { statements: 56, answers: 38 };

onEveryDatabase((database) => {
  if (database.kind === 'sqlite') return; // there, a statement is a call of a function

  test('a build of a known commit takes few statements and fewer round trips', async (t) => {
    const wire = await tapWire(await database.emptyUrl());
    database.afterwards(() => wire.close());
    const service = new Service(database, { settings: { database_url: wire.url } });
    await service.start();
    const runner = await ScriptedRunner.start(service.store);
    database.afterwards(() => runner.dispatch.close());
    const alice = await service.user();
    const project = await alice.createProject();
    await alice.createSuite(project);
    await alice.requestBuild(project);
    await (await runner.take('fetch_commit')).fetched();
    const first = await runner.take('run_suite');
    const { sha } = first.order.work;
    await first.exit(0);

    wire.flights.length = 0;
    assert.equal((await service.api.ask('GET', `/projects/${project.id}/build_requests`, {})).status, 401);
    // The answer does not wait for what is asked in vain: a later question does.
    for (let again = 0; again < 3; again += 1) await service.store.db.read.selectFrom('users').select('id').execute();
    const ofProject = wire.flights.flat().filter((text) => text.includes('from "projects"'));
    assert.deepEqual(ofProject, [], 'who sends no credentials costs the database nothing');

    const counted = [];
    for (let build = 0; build < 8; build += 1) {
      wire.flights.length = 0;
      const waiting = runner.take('run_suite');
      await alice.requestBuild(project, sha);
      const task = await waiting;
      await task.say('hello\n');
      const { claim } = task.order;
      const report = { claim, outcome: { kind: 'exited', status: 0 }, logSize: 6 } as const;
      assert.deepEqual(await runner.dispatch.finish(runner.self, report), { taken: true });
      // Whether other servers are told depends on whether there were any a moment ago, and nobody waits for it.
      const flights = wire.flights.filter(
        (flight) => flight.length > 0 && !flight.some((text) => /pg_notify/.test(text)),
      );
      counted.push({ statements: flights.flat().length, answers: flights.length, flights });
    }
    // The server does other things beside it now and then: the build in which it did least else tells.
    const [least] = counted.toSorted((a, b) => a.statements - b.statements);
    assert.ok(least);
    const texts = least.flights.map((flight) => flight.map((text) => text.trim().slice(0, 90)).join('\n  '));
    t.diagnostic(`${least.statements} statements, ${least.answers} answers`);
    assert.ok(least.statements > 20, 'they are counted');
    assert.ok(least.statements <= most.statements, `${least.statements} statements:\n${texts.join('\n')}`);
    assert.ok(least.answers <= most.answers, `${least.answers} answers:\n${texts.join('\n')}`);
  });
});
