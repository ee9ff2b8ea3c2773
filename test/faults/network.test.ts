import assert from 'node:assert/strict';
import { createHash, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { rmSync, writeFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { Client } from 'pg';
import { command } from '../support/command.ts';
import { temporaryFolder } from '../support/databases.ts';
import { startInstallation, type Installation, type Item, type Project } from '../support/installation.ts';
import { lacks } from '../support/machine.ts';
import { startNetwork, type Machine, type Network } from '../support/network.ts';
import { freePort } from '../support/ports.ts';
import { startPostgres, type Postgres } from '../support/postgres.ts';
import { startProgram, type Started } from '../support/program.ts';

/**
 * PostgreSQL, its standby and a runner are machines of their own on a network, and cables are pulled: between the server
 * and its database, between the runner and the server. Then the database dies for good, and its standby takes over its
 * address. Every write that was acknowledged is there, every log is whole, and every build ends once.
 */
const skip = lacks('networks', 'ip', 'postgres');
const seed = Number(process.env.FAULT_SEED ?? 1);

/** The same seed makes the same choices; what they meet is up to the machine. */
const chance = ((): ((below: number) => number) => {
  let count = 0;
  return (below) => {
    count += 1;
    return createHash('sha256').update(`${seed} ${count}`).digest().readUInt32LE() % below;
  };
})();

const lines = 30;
const says = Array.from({ length: lines }, (_, line) => `line ${line}\n`).join('');
const script = `i=0; while [ $i -lt ${lines} ]; do echo "line $i"; i=$((i+1)); sleep 0.1; done`;

describe('machines on a network', { skip }, () => {
  const cleanUps: (() => void | Promise<void>)[] = [];
  const afterwards = (cleanUp: () => void | Promise<void>): void => void cleanUps.push(cleanUp);
  let network: Network;
  let machines: Record<'first' | 'second' | 'far', Machine>;
  let databases: Record<'first' | 'second', Postgres>;
  let installation: Installation;
  let project: Project;
  let other: Project;
  let runner: Started;
  let address: string;
  before(async () => {
    network = await startNetwork();
    afterwards(() => network.close());
    machines = { first: await network.machine(), second: await network.machine(), far: await network.machine() };
    const { first, second, far } = machines;
    const primary = await startPostgres(['fsync=off'], { within: first.within });
    afterwards(() => primary.close());
    const place = { within: second.within, standbyOf: first.address };
    const standby = await startPostgres(['fsync=off'], place);
    afterwards(() => standby.close());
    databases = { first: primary, second: standby };
    // A commit is acknowledged when both have it.
    await query(primary.url, `alter system set synchronous_standby_names = '*'`);
    await query(primary.url, 'select pg_reload_conf()');
    address = network.free();
    await network.move(address, first);

    const emptyUrl = async (): Promise<string> => {
      const { pathname } = new URL(await primary.emptyUrl());
      return `postgres://tests@${address}${pathname}`;
    };
    const settings = { HEADRACE_HOST: network.address };
    const port = await freePort();
    installation = await startInstallation({ kind: 'postgres', emptyUrl, afterwards }, settings, {
      runner: false,
      port,
    });
    project = await installation.project();
    other = await installation.project('other');
    runner = await startRunner(far, port);
  });
  after(async () => {
    for (const cleanUp of cleanUps.toReversed()) await cleanUp();
  });

  /** The runner on its machine reaches the server, and the git host, which listens on this machine's loopback alone. */
  const startRunner = async (far: Machine, port: number): Promise<Started> => {
    const folder = temporaryFolder();
    afterwards(() => rmSync(folder, { recursive: true, force: true }));
    const { HEADRACE_DATABASE_URL: _, HEADRACE_HOST: __, ...env } = installation.env;
    const created = await command(
      ['admin', 'runner', 'create', 'far', '--data-dir', installation.folder],
      installation.env,
    );
    const file = (name: string, content: string): string => {
      writeFileSync(join(folder, name), content);
      return join(folder, name);
    };
    const token = file('token', (JSON.parse(created.stdout.toString()) as { token: string }).token);
    const { host } = installation;
    const gate = createServer((socket) => {
      const onward = connect(host.port, '127.0.0.1');
      for (const one of [socket, onward]) one.on('error', () => {});
      socket.pipe(onward).pipe(socket);
    }).listen(0, network.address);
    await once(gate, 'listening');
    gate.unref();
    afterwards(() => void gate.close());
    const { port: gatePort } = gate.address() as { port: number };
    env.HEADRACE_SSH_CONFIG = file('ssh', `Host ${host.name}\n  HostName ${network.address}\n  Port ${gatePort}\n`);
    const place = ['--url', `https://${network.address}:${port}`, '--token-file', token];
    const trust = ['--ca-file', join(installation.folder, 'tls', 'cert.pem'), '--data-dir', join(folder, 'data')];
    const started = startProgram({ afterwards }, ['runner', ...place, ...trust], env, far.within);
    afterwards(async () => {
      started.process.kill('SIGTERM');
      await started.exited;
    });
    return started;
  };

  /** Each fault, and how long it lasts. */
  const faults: Record<string, (t: { diagnostic(said: string): void }) => Promise<void>> = {
    'the server is cut off from its database': () => cutOff(machines.first, 3000 + chance(6000)),
    // Shorter than a claim lasts without its runner, with the seconds until TCP sends again what was lost.
    'the runner is cut off from the server': () => cutOff(machines.far, 2000 + chance(4000)),
    'the database is restarted': async () => {
      await databases.first.stop(chance(2) === 0 ? 'SIGINT' : 'SIGQUIT');
      await pause(chance(1500));
      await databases.first.start();
    },
  };

  test('every acknowledged write is there, every log is whole, and every build ends once', async (t) => {
    t.diagnostic(`FAULT_SEED=${seed}`);
    await project.suite(t, 'talkative', script);
    const load = startLoad(installation, project, other);
    await load.goesOn(3);
    const order = Object.keys(faults).toSorted(() => chance(3) - 1);
    for (const fault of order) {
      await pause(chance(1000));
      const startedAt = performance.now();
      await faults[fault]?.(t);
      const healedAt = performance.now();
      await load.goesOn(2);
      const [lasted, back] = [healedAt - startedAt, performance.now() - healedAt].map(Math.round);
      t.diagnostic(`${fault} for ${lasted} ms; answered again ${back} ms later`);
    }
    await pause(chance(1000));
    const startedAt = performance.now();
    await databases.first.stop(chance(2) === 0 ? 'SIGQUIT' : 'SIGKILL');
    await query(databases.second.url, 'select pg_promote(true, 60)');
    await network.move(address, machines.second);
    await load.goesOn(2);
    t.diagnostic(
      `the standby has taken over, ${Math.round(performance.now() - startedAt)} ms after the other one died`,
    );
    const { asked, created, refused } = await load.stop();
    t.diagnostic(`${asked.length} builds and ${created.length} suites acknowledged, ${refused} told to come back`);

    const suites = new Set((await other.suites()).map(({ name }) => name));
    assert.deepEqual(
      created.filter((name) => !suites.has(name)),
      [],
      'what was acknowledged is there',
    );
    for (const request of asked) {
      assert.equal((await project.end(request)).build_state, 'passed', runner.said());
    }
    const [commit, ...others] = await project.commits();
    assert.equal(others.length, 0);
    const builds = (await project.builds(commit)).filter(({ build_state: state }) => state !== 'cancelled');
    for (const build of builds) {
      assert.deepEqual([build.build_state, build.failure_reason], ['passed', ''], runner.said());
      assert.equal(await project.log(build), says);
    }
    assert.ok(builds.length >= asked.length);
  });
});

async function cutOff(machine: Machine, forMs: number): Promise<void> {
  await machine.unplug();
  await pause(forMs);
  await machine.plug();
}

async function query(url: string, text: string): Promise<void> {
  const client = new Client(url);
  await client.connect();
  try {
    await client.query(text);
  } finally {
    await client.end();
  }
}

/** People ask for builds, and others make suites elsewhere. Nothing but success and `come back` is taken. */
function startLoad(installation: Installation, project: Project, other: Project) {
  const asked: Item[] = [];
  const created: string[] = [];
  const state = { refused: 0, isOver: false };
  const ask = async (path: string, form: Record<string, string>): Promise<Item | undefined> => {
    const { status, text } = await installation.ask(path, form);
    if (status === 201) return (JSON.parse(text) as { response: Item }).response;
    assert.equal(text, '{"error":{"generic":["resource_temporary_unavailable"]}}');
    state.refused += 1;
    return undefined;
  };
  const builds = async (): Promise<void> => {
    while (!state.isOver) {
      const request = await ask(`${project.path}/build_requests`, { commit_ref: 'main' });
      if (request) asked.push(request);
      await pause(1500); // about as many as the runner does meanwhile
    }
  };
  const suites = async (): Promise<void> => {
    while (!state.isOver) {
      const name = randomUUID();
      if (await ask(`${other.path}/suites`, { name, command: 'true' })) created.push(name);
      await pause(50);
    }
  };
  const failed = Promise.all([builds(), suites(), suites()]);
  failed.catch(() => {}); // told to whoever waits
  return {
    async goesOn(more: number): Promise<void> {
      const enough = [asked.length + more, created.length + 10 * more] as const;
      while (asked.length < enough[0] || created.length < enough[1]) await Promise.race([pause(20), failed]);
    },
    async stop() {
      state.isOver = true;
      await failed;
      return { asked, created, refused: state.refused };
    },
  };
}
