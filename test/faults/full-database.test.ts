import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { Client } from 'pg';
import { startInstallation, type Installation, type Project } from '../support/installation.ts';
import { commandsWith } from '../support/process-list.ts';
import { lacks } from '../support/machine.ts';
import { longestWait } from '../support/pauses.ts';
import { logOf, startPostgres, type Postgres } from '../support/postgres.ts';

/**
 * PostgreSQL answers, and takes no writes: its disk is full, or somebody made it read-only, as providers do with a
 * database that is about to be full. Builds end meanwhile. When it takes writes again, all goes on.
 */
const ways = [
  {
    why: 'full',
    refuse: bodyOf(`raise exception 'could not extend file: No space left on device' using errcode = 'disk_full';`),
    accept: bodyOf(''),
  },
  {
    why: 'read-only',
    refuse: 'alter system set default_transaction_read_only = on',
    accept: 'alter system reset default_transaction_read_only',
  },
] as const;

/** A trigger of every table. */
function bodyOf(statement: string): string {
  return `create or replace function refuse() returns trigger language plpgsql as
    $$ begin ${statement} return null; end $$`;
}
const triggers = `do $$ declare one text; begin
  for one in select tablename from pg_tables where schemaname = 'public' loop
    execute format('create trigger refuse before insert or update on %I for each statement execute function refuse()', one);
  end loop; end $$`;

describe('PostgreSQL refuses writes for a while', { skip: lacks('postgres') }, () => {
  const cleanUps: (() => void | Promise<void>)[] = [];
  let postgres: Postgres;
  let operator: Client;
  let installation: Installation;
  let project: Project;
  let other: Project;
  before(async () => {
    postgres = await startPostgres(['fsync=off']);
    cleanUps.push(() => postgres.close());
    const url = await postgres.emptyUrl();
    const afterwards = (one: () => void | Promise<void>): void => void cleanUps.push(one);
    installation = await startInstallation({ kind: 'postgres', emptyUrl: async () => url, afterwards });
    project = await installation.project();
    other = await installation.project('other');
    operator = new Client(url);
    await operator.connect();
    cleanUps.push(() => operator.end());
    await operator.query('set default_transaction_read_only = off'); // its own
    await operator.query(bodyOf(''));
    await operator.query(triggers);
  });
  after(async () => {
    for (const cleanUp of cleanUps.toReversed()) await cleanUp();
  });

  const change = async (statement: string): Promise<void> => {
    await operator.query(statement);
    await operator.query('select pg_reload_conf()');
  };
  const until = async (isIt: () => boolean | Promise<boolean>): Promise<void> => {
    for (const since = performance.now(); !(await isIt()); await pause(50))
      assert.ok(performance.now() - since < longestWait, String(isIt));
  };
  const refusals = (): number =>
    logOf(postgres.url).match(/ERROR: {2}.*(No space left|in a read-only transaction)/g)?.length ?? 0;
  const health = async (): Promise<string> => {
    const { status, text } = await installation.serving().api.get('/healthz');
    return `${status} ${(JSON.parse(text) as { reason?: string }).reason ?? 'ok'}`;
  };

  for (const [at, { why, refuse, accept }] of ways.entries())
    test(`a database that is ${why} ends nothing and loses nothing`, async (t) => {
      const { process: server } = installation.serving();
      const sleep = `9999.${at}`;
      const suite = await project.suite(t, why, `echo begun; sleep ${sleep} || true; echo ended`);
      await project.repository.commit({ message: why });
      const request = await project.ask('main');
      await project.untilLogged(suite, /begun/);
      await other.suite(t, why, 'echo quick');
      await other.repository.commit({ message: why });
      const quick = await other.ask('main');

      await change(refuse);
      t.after(() => change(accept));
      await until(async () => (await health()) === `503 the database is ${why}`);
      for (const pid of commandsWith(`sleep\0${sleep}\0`)) process.kill(pid, 'SIGTERM');
      await until(() => commandsWith(`sleep\0${sleep}\0`).length === 0);
      const before = refusals();
      await until(() => refusals() >= before + 10); // the runner has tried to say that the build is over
      const asked = await installation.ask(`${project.path}/suites`, { name: 'refused', command: 'true' });
      assert.deepEqual([asked.status, asked.text], [403, '{"error":{"generic":["resource_temporary_unavailable"]}}']);
      assert.equal((await installation.ask(`${project.path}/suites`)).status, 200, 'what is there is shown');

      await change(accept);
      await until(async () => (await health()) === '200 ok');
      for (const [its, asking, said] of [
        [project, request, 'begun\nTerminated\nended\n'],
        [other, quick, 'quick\n'],
      ] as const) {
        assert.equal((await its.end(asking)).build_state, 'passed', await its.fetchLog(asking));
        const [attempt, ...others] = await its.builds((await its.commits())[0]);
        assert.deepEqual([attempt?.build_state, attempt?.attempt, others.length], ['passed', 1, 0]);
        assert.equal(await its.log(attempt), said);
      }
      assert.equal(installation.serving().process.pid, server.pid);
      assert.equal(server.exitCode, null, 'the server is the one that it was');
      const names = (await project.suites()).map(({ name }) => name);
      assert.deepEqual(names, [why], 'what was refused is not there');
    });
});
