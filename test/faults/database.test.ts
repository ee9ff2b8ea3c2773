import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { startInstallation, type Installation, type Project } from '../support/installation.ts';
import { Listener, logOf, statesOf } from '../support/firehose.ts';
import { lacks } from '../support/machine.ts';
import { startPostgres, type Postgres } from '../support/postgres.ts';

/**
 * PostgreSQL is restarted in the middle of a load. The server and its runner go on by themselves: builds come to their
 * end, those who follow them hear every line on the connection that they have, and whoever asks meanwhile waits or is
 * told to come back. What was acknowledged is there afterwards.
 */
const password = 'Passw0rd-of-the-database';
const restarts = [
  { signal: 'SIGINT', name: 'a fast restart', awaySeconds: 0 },
  { signal: 'SIGQUIT', name: 'an immediate restart', awaySeconds: 7 },
  // Longer than a claim holds: nobody could extend it meanwhile.
  { signal: 'SIGKILL', name: 'the death of the postmaster', awaySeconds: 17 },
] as const;

describe('PostgreSQL goes and comes back', { skip: lacks('postgres') }, () => {
  const cleanUps: (() => void | Promise<void>)[] = [];
  let postgres: Postgres;
  let installation: Installation;
  let project: Project;
  let other: Project;
  before(async () => {
    postgres = await startPostgres(['fsync=off']); // the machine stays up, so what was written is there
    cleanUps.push(() => postgres.close());
    const emptyUrl = async (): Promise<string> => {
      const url = new URL(await postgres.emptyUrl());
      url.password = password;
      return url.href;
    };
    const place = { kind: 'postgres' as const, emptyUrl, afterwards: (one: () => void) => void cleanUps.push(one) };
    installation = await startInstallation(place);
    project = await installation.project();
    other = await installation.project('other');
  });
  after(async () => {
    for (const cleanUp of cleanUps.toReversed()) await cleanUp();
  });

  for (const { signal, name, awaySeconds } of restarts) {
    test(`${name} ends nothing and loses nothing`, async (t) => {
      const { process: server, api } = installation.serving();
      const lines = 40 + awaySeconds * 12;
      await project.suite(t, name, `i=0; while [ $i -lt ${lines} ]; do echo "line $i"; i=$((i+1)); sleep 0.1; done`);
      await project.repository.commit({ message: name });
      const request = await project.ask('main');
      const follow = async (path: string): Promise<Listener> =>
        new Listener(await api.open(path, { as: installation.admin }));
      const followed = await follow(`${project.path}/build_requests/${request.id_str}/firehose`);
      const events = await follow(`${project.path}/firehose?offset=0`);
      const begun = await followed.until(({ event, data }) => event === 'log' && 'build_id_str' in data);
      const build = await follow(`${project.path}/builds/${String(begun.at(-1)?.data.build_id_str)}/firehose`);

      const load = askAll(installation, other, name);
      await load.answered(20);
      const health = watch(installation);
      await postgres.stop(signal);
      await pause(awaySeconds * 1000);
      await postgres.start();
      const backAt = performance.now();
      await load.answered(20);
      assert.ok(performance.now() - backAt < 60_000, 'writes go on within a minute');
      const { created, refused } = await load.stop();
      const seen = await health.untilWell();
      t.diagnostic(`${created.length} created, ${refused} told to come back; healthz: ${[...seen].join('; ')}`);

      assert.equal((await project.end(request)).build_state, 'passed');
      assert.equal(server.exitCode, null, 'the server is the one that it was');
      assert.equal(installation.serving().process.pid, server.pid);
      const [attempt, ...others] = await project.builds((await project.commits())[0]);
      assert.deepEqual([attempt?.build_state, attempt?.attempt, others.length], ['passed', 1, 0]);
      const said = Array.from({ length: lines }, (_, line) => `line ${line}\n`).join('');
      assert.equal(await project.log(attempt), said);

      const told = [...begun, ...(await followed.rest())].filter(({ data }) => 'build_id_str' in data);
      assert.equal(logOf(told), said, 'whoever follows the request hears every line');
      const ofBuild = await build.rest();
      assert.equal(logOf(ofBuild), said, 'whoever follows the build hears every line');
      assert.equal(statesOf(ofBuild).at(-1), 'passed');
      await events.until(({ data }) => data.id_str === request.id_str && data.state === 'passed');
      events.leave();

      const stored = new Set((await other.suites()).map((suite) => suite.name));
      assert.deepEqual(
        created.filter((suite) => !stored.has(suite)),
        [],
        'what was acknowledged is there',
      );
      if (awaySeconds > 10) {
        assert.ok(refused > 0, 'nobody waits for ever');
        assert.ok(seen.has('503 the database cannot be reached'), 'the health says what is wrong');
      }
    });
  }

  test('and nothing of the driver is ever logged', () => {
    const log = installation.serving().log();
    assert.match(log, /the database cannot be reached/);
    for (const word of [password, 'secretKey', 'processID', 'connectionParameters', '"client"', '_events']) {
      assert.ok(!log.includes(word), `${word} stands in the log`);
    }
    for (const line of log.trim().split('\n')) assert.ok(line.length < 8000, `a line of ${line.length} characters`);
  });
});

/** Clients who make suites and look at the project, one request after the other. Nothing but success and `come back` is taken. */
function askAll(installation: Installation, project: Project, name: string) {
  const created: string[] = [];
  const state = { refused: 0, isOver: false };
  const isTold = ({ status, text }: { status: number; text: string }): boolean => {
    if (status < 300) return true;
    assert.equal(text, '{"error":{"generic":["resource_temporary_unavailable"]}}');
    assert.equal(status, 403);
    state.refused += 1;
    return false;
  };
  const clients = Array.from({ length: 8 }, async (_, client) => {
    for (let turn = 0; !state.isOver; turn += 1) {
      const suite = `${name} ${client} ${turn}`;
      if (isTold(await installation.ask(`${project.path}/suites`, { name: suite, command: 'true' }))) {
        created.push(suite);
      }
      isTold(await installation.ask(project.path));
    }
  });
  const failed = Promise.all(clients);
  failed.catch(() => {}); // told to whoever waits
  return {
    /** Comes back when so many more were created. */
    async answered(more: number): Promise<void> {
      const enough = created.length + more;
      while (created.length < enough) await Promise.race([pause(20), failed]);
    },
    async stop(): Promise<{ created: string[]; refused: number }> {
      state.isOver = true;
      await failed;
      return { created, refused: state.refused };
    },
  };
}

/** What `/healthz` says, over and over. */
function watch(installation: Installation) {
  const seen = new Set<string>();
  const state = { last: '', isOver: false };
  const look = async (): Promise<void> => {
    const { status, text } = await installation.serving().api.get('/healthz');
    state.last = `${status} ${(JSON.parse(text) as { reason?: string }).reason ?? 'ok'}`;
    seen.add(state.last);
  };
  const looking = (async () => {
    while (!state.isOver) {
      await look();
      await pause(100);
    }
  })();
  looking.catch(() => {});
  return {
    async untilWell(): Promise<Set<string>> {
      for (const since = performance.now(); state.last !== '200 ok'; await Promise.race([pause(50), looking])) {
        assert.ok(performance.now() - since < 60_000, `the health stays ${state.last}`);
      }
      state.isOver = true;
      await looking;
      return seen;
    },
  };
}
