import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { startBalancer, type Balancer } from '../support/balancer.ts';
import { Client, type Answer } from '../support/client.ts';
import { command } from '../support/command.ts';
import { temporaryFolder } from '../support/databases.ts';
import { eventsOf } from '../support/firehose.ts';
import { startInstallation, type Installation, type Item, type Project } from '../support/installation.ts';
import { lacks } from '../support/machine.ts';
import { freePort } from '../support/ports.ts';
import { newDatabase } from '../support/postgres.ts';
import { serve, startProgram, type Serving } from '../support/program.ts';

/**
 * Two servers on one PostgreSQL, behind a balancer, are stopped and started again in turn while people ask for builds
 * and follow them. One has a local runner, which is left running; another runner comes through the balancer. Nobody
 * notices: no request fails, no build runs twice, no byte of a log is missing.
 */
const rounds = 2;
/**
 * One more than the local runner has slots, of which two are for builds and two for fetches: what it holds waits while its
 * server is away, and the others have to go on.
 */
const clients = 5;
const said = (lines: number): string => Array.from({ length: lines }, (_, line) => `line ${line}\n`).join('');
const short = { command: 'i=0; while [ $i -lt 30 ]; do echo "line $i"; i=$((i+1)); sleep 0.1; done', says: said(30) };

describe('two servers that are upgraded one after the other', { skip: lacks('postgres') }, () => {
  const cleanUps: (() => void | Promise<void>)[] = [];
  const afterwards = (cleanUp: () => void | Promise<void>): void => void cleanUps.push(cleanUp);
  let installation: Installation;
  let second: { serving: Serving; start(): Promise<Serving> };
  let project: Project;
  let balancer: Balancer;
  let api: Client;
  before(async () => {
    const postgres = process.env.TEST_POSTGRES_URL ?? assert.fail('scripts/test starts PostgreSQL');
    const folder = temporaryFolder();
    const place = { kind: 'postgres' as const, emptyUrl: () => newDatabase(postgres), afterwards };
    const ports = [await freePort(), await freePort()] as const;
    const settings = { INVOCATION_ID: '1d', HEADRACE_BASE_URL: 'https://127.0.0.1' };
    installation = await startInstallation(place, settings, { port: ports[0] });
    afterwards(() => rmSync(folder, { recursive: true, force: true }));
    const of = (...names: string[]): string => join(installation.folder, ...names);
    const env = {
      ...installation.env,
      HEADRACE_MASTER_KEY_FILE: of('master.key'),
      HEADRACE_BLOB_URL: of('blobs'),
      HEADRACE_TLS_CERT: of('tls', 'cert.pem'),
      HEADRACE_TLS_KEY: of('tls', 'key.pem'),
    };
    const certificate = readFileSync(of('tls', 'cert.pem'), 'utf8');
    const { HEADRACE_DATABASE_URL: _, ...runnerEnv } = installation.env;
    const start = (): Promise<Serving> =>
      serve({ afterwards }, join(folder, 'second'), env, { port: ports[1], certificate });
    second = { serving: await start(), start };
    project = await installation.project();
    balancer = await startBalancer(ports, certificate);
    afterwards(async () => balancer[Symbol.asyncDispose]());
    api = new Client(balancer.address, certificate, { keepAlive: false });

    const created = await command(['admin', 'runner', 'create', 'far', '--data-dir', installation.folder], env);
    writeFileSync(join(folder, 'token'), (JSON.parse(created.stdout.toString()) as { token: string }).token);
    const args = ['--url', balancer.address, '--token-file', join(folder, 'token'), '--ca-file', of('tls', 'cert.pem')];
    const runner = startProgram({ afterwards }, ['runner', ...args, '--data-dir', join(folder, 'far')], runnerEnv);
    afterwards(async () => {
      runner.process.kill('SIGTERM');
      await runner.exited;
      second.serving.process.kill('SIGTERM');
      await second.serving.exited;
    });
  });
  after(async () => {
    for (const cleanUp of cleanUps.toReversed()) await cleanUp();
  });

  let retried = 0;
  /** As a client of a service that may be restarted at any moment: what was not answered is asked again. */
  const ask = async (path: string, form?: Record<string, string>): Promise<Answer> => {
    const headers = form ? { 'idempotency-key': randomUUID() } : {};
    for (;;) {
      try {
        const asking = { as: installation.admin, headers, ...(form && { form }) };
        const answer = await api.ask(form ? 'POST' : 'GET', path, asking);
        if (!answer.text.includes('resource_temporary_unavailable')) return answer;
        assert.equal(answer.status, 503);
      } catch (error) {
        assert.match(String((error as NodeJS.ErrnoException).code), /^(ECONNRESET|EPIPE|ECONNREFUSED)$/);
      }
      retried += 1;
      await pause(20);
    }
  };

  interface Runner {
    kind: string;
    work: { kind: string }[];
  }
  /** Whether a build runs on the local runner. */
  const isLocalBusy = async (): Promise<boolean> => {
    const runners = (JSON.parse((await ask('/runners')).text) as { response: Runner[] }).response;
    return runners.some(({ kind, work }) => kind === 'local' && work.some((one) => one.kind === 'run_suite'));
  };

  test('nobody notices', async (t) => {
    await project.suite(t, 'short', short.command);
    const asked: Item[] = [];
    const state = { isOver: false };
    t.after(() => void (state.isOver = true));
    const load = Array.from({ length: clients }, async () => {
      while (!state.isOver) {
        const answer = await ask(`${project.path}/build_requests`, { commit_ref: 'main' });
        assert.equal(answer.status, 201, answer.text);
        const request = (JSON.parse(answer.text) as { response: Item }).response;
        asked.push(request);
        const path = `${project.path}/build_requests/${request.id_str}`;
        const followed = await follow(api, installation, path);
        assert.equal(followed.state, 'passed');
        assert.equal(followed.log, short.says, 'whoever follows it hears every line once');
        assert.equal((await ask(path)).status, 200);
      }
    });
    const failed = Promise.all(load);
    failed.catch(() => {}); // told to whoever waits
    const goesOn = async (more: number): Promise<void> => {
      for (const enough = asked.length + more; asked.length < enough;) await Promise.race([pause(20), failed]);
    };

    await goesOn(clients);
    for (let round = 0; round < rounds; round += 1) {
      while (!(await isLocalBusy())) await Promise.race([pause(20), failed]);
      assert.equal(await stopped(installation.serving()), 0, installation.serving().log());
      await goesOn(1);
      await installation.startServer();
      await goesOn(2);
      assert.equal(await stopped(second.serving), 0, second.serving.log());
      await goesOn(1);
      second.serving = await second.start();
      await goesOn(2);
    }
    state.isOver = true;
    await failed;

    const [commit, ...others] = await project.commits();
    assert.equal(others.length, 0);
    const builds = await project.builds(commit);
    t.diagnostic(`${asked.length} builds asked for, ${retried} requests made again`);
    assert.equal(builds.length, asked.length, 'each was run once');
    for (const build of builds) {
      assert.deepEqual([build.build_state, build.failure_reason], ['passed', '']);
      assert.equal(await project.log(build), short.says);
    }
  });
});

async function stopped({ process: server, exited }: Serving): Promise<unknown> {
  server.kill('SIGTERM');
  const [status] = (await exited) as [number | null];
  return status;
}

/** Follows a request to its end as a browser does: where the stream breaks off, it comes back with the last number. */
async function follow(api: Client, { admin }: Installation, path: string): Promise<{ state: unknown; log: string }> {
  let [last, state, log] = ['', '' as unknown, ''];
  for (;;) {
    try {
      const headers: Record<string, string> = last === '' ? {} : { 'last-event-id': last };
      const answer = await api.open(`${path}/firehose`, { as: admin, headers });
      if (answer.statusCode !== 200) {
        answer.resume();
        assert.equal(answer.statusCode, 503);
      } else
        for await (const { event, id, data } of eventsOf(answer)) {
          last = id ?? last;
          if (event === 'end') return { state, log };
          if (event === 'state' && !('build_id_str' in data)) state = data.state;
          if (event === 'log' && 'build_id_str' in data) log += String(data.text);
        }
    } catch (error) {
      assert.match(String((error as NodeJS.ErrnoException).code), /^(ECONNRESET|EPIPE|ECONNREFUSED)$/);
    }
    await pause(20);
  }
}
