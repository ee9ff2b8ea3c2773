import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, realpathSync } from 'node:fs';
import { join } from 'node:path';
import { before, test, type TestContext } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { groupsOf, marked } from '../runner/sandbox/support.ts';
import { onEveryDatabase } from '../support/databases.ts';
import { startInstallation, type Build, type Installation, type Item, type Project } from '../support/installation.ts';
import { commandsWith } from '../support/process-list.ts';

/**
 * Server and runner are killed at random moments while builds run. Whatever was accepted comes to its end, what the
 * builds said is there to the byte, and nothing of them is left on the machine.
 */
const rounds = 5;
const faults = ['server', 'runner', 'both'] as const;

/** Numbered lines with pauses in between, and a long stretch without any: a kill can fall anywhere. */
const talkative = `i=0; while [ $i -lt 200 ]; do echo "line $i"; i=$((i+1)); [ $((i % 50)) -ne 0 ] || sleep 0.2; done; seq 100000`;
const wordy = Array.from({ length: 200 }, (_, line) => `line ${line}\n`).join('');
const counted = Array.from({ length: 100_000 }, (_, number) => `${number + 1}\n`).join('');
const suites = {
  talkative: { command: talkative, says: wordy + counted },
  brief: { command: 'echo one word; sleep 0.3; echo another', says: 'one word\nanother\n' },
};

/** The same seed makes the same choices; what they meet is up to the machine. */
function chances(seed: number): (below: number) => number {
  let count = 0;
  return (below) => {
    count += 1;
    return createHash('sha256').update(`${seed} ${count}`).digest().readUInt32LE() % below;
  };
}

onEveryDatabase((database) => {
  let installation: Installation;
  before(async () => {
    installation = await startInstallation(database, { HEADRACE_CONCURRENCY: '3' });
  });

  test('whatever dies, every request comes to its end and every log is whole', async (t) => {
    const seed = Number(process.env.FAULT_SEED ?? 1);
    t.diagnostic(`FAULT_SEED=${seed}`);
    const chance = chances(seed);
    const mark = `fault-${database.kind}-${seed}-${process.pid}`;
    const projects = [
      await projectWith(installation, t, 'first', mark),
      await projectWith(installation, t, 'second', mark),
    ];
    const accepted: { project: Project; request: Item }[] = [];
    const ask = async (project: Project, ref: string): Promise<void> => {
      accepted.push({ project, request: await project.ask(ref) });
    };

    for (let round = 0; round < rounds; round += 1) {
      const refs = await Promise.all(
        projects.map(({ repository }) => repository.commit({ message: `Round ${round}` })),
      );
      const asking = Promise.allSettled(
        projects.map((project, at) => ask(project, chance(2) === 0 ? 'main' : (refs[at] ?? ''))),
      );
      const fault = faults[chance(faults.length)] ?? 'server';
      const moment = chance(1500);
      t.diagnostic(`after ${moment} ms: ${fault}`);
      await pause(moment);
      if (fault !== 'runner') await installation.killServer();
      if (fault !== 'server') await installation.killRunner();
      await asking; // one that was not answered was not accepted, whatever became of it
      if (fault !== 'runner') await installation.startServer();
    }
    for (const project of projects) await ask(project, 'main');

    // One whose answer was lost may be there all the same, and what it began ends too.
    const there: typeof accepted = [];
    for (const project of projects) {
      const requests = await project.api().get<Item[]>(`${project.path}/build_requests`);
      there.push(...requests.map((request) => ({ project, request })));
    }
    const known = new Set(there.map(({ request }) => request.id_str));
    for (const { request } of accepted) assert.ok(known.has(request.id_str), 'one that was accepted is gone');
    for (const { project, request } of there) {
      const { build_state: state } = await project.end(request);
      assert.ok(state === 'passed' || state === 'errored', `${state} is not how it can end here`);
    }
    const all = await Promise.all(projects.map(attemptsOf));
    for (const attempts of all) assertTold(attempts);
    assert.ok(all.flat().some(({ build_state: state }) => state === 'passed'));
    assert.deepEqual(marked(mark), [], 'processes of builds are left');
  });

  test('and when it is stopped, nothing of it is left on the machine', async () => {
    await installation.stop();
    const sandboxes = join(realpathSync(installation.folder), 'runner', 'sandboxes');
    assert.deepEqual(readdirSync(sandboxes), [], 'directories are left');
    assert.deepEqual(readdirSync(join(installation.folder, 'runner', 'spool')), [], 'logs on their way are left');
    assert.deepEqual(groupsOf(sandboxes), [], 'control groups are left');
    assert.deepEqual(commandsWith(installation.folder), [], 'processes are left');
    assert.ok(!readFileSync('/proc/self/mountinfo', 'utf8').includes(installation.folder), 'mounts are left');
  });
});

async function projectWith(installation: Installation, t: TestContext, name: string, mark: string): Promise<Project> {
  const project = await installation.project(name);
  for (const [suite, { command }] of Object.entries(suites)) {
    await project.variable(await project.suite(t, suite, command), 'MARK', mark);
  }
  return project;
}

interface Attempt extends Build {
  commit: string;
  said: string;
  expected: string;
}

/** Every build of a project, with what it said and what its command says when nobody disturbs it. */
async function attemptsOf(project: Project): Promise<Attempt[]> {
  const names = new Map((await project.suites()).map(({ id_str: id, name }) => [id, name as keyof typeof suites]));
  const attempts: Attempt[] = [];
  for (const commit of await project.commits()) {
    for (const build of await project.builds(commit)) {
      const expected = suites[names.get(build.suite_id_str) ?? assert.fail()].says;
      attempts.push({ ...build, commit: commit.id_str, said: await project.log(build), expected });
    }
  }
  return attempts;
}

function assertTold(attempts: Attempt[]): void {
  for (const { build_state: state, failure_reason: reason, said, expected, ...build } of attempts) {
    const what = `attempt ${build.attempt} of ${build.id_str}`;
    if (state === 'passed') assert.ok(said === expected, `${what} passed, but its log differs`);
    else {
      assert.deepEqual([state, reason], ['errored', 'runner_lost'], what);
      assert.ok(expected.startsWith(said), `${what} was lost, but its log is not the beginning of the whole`);
      const next = attempts.some(
        (other) =>
          other.commit === build.commit &&
          other.suite_id_str === build.suite_id_str &&
          other.attempt === build.attempt + 1,
      );
      assert.ok(next || build.attempt >= 3, `${what} was lost and not run again`);
    }
  }
}
