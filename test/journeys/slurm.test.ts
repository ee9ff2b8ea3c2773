import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { command } from '../support/command.ts';
import { temporaryFolder } from '../support/folders.ts';
import { startInstallation, type Build, type Installation, type Project } from '../support/installation.ts';
import { commandsWith } from '../support/process-list.ts';
import { startProgram, type Started } from '../support/program.ts';
import { nodes, startCluster, type Cluster } from '../support/slurm.ts';
import { longestWait } from '../support/pauses.ts';

const over = /^(CANCELLED|COMPLETED|FAILED|TIMEOUT|NODE_FAIL)$/;
const most = 6;
const suites = 25;
/** So many runners start one after the other that this takes minutes where the machine is busy. */
const limit = { timeout: 2 * longestWait };

/** A real controller and two real nodes on this machine; the server and the git host are elsewhere, as far as they know. */
describe('a Slurm cluster', () => {
  const cleanUps: (() => void | Promise<void>)[] = [];
  const place = {
    kind: 'sqlite' as const,
    emptyUrl: async () => '',
    afterwards: (cleanUp: () => void | Promise<void>) => void cleanUps.push(cleanUp),
  };
  const folder = temporaryFolder();
  const scratch = join(folder, 'scratch');
  const tokenFile = join(folder, 'token');
  let cluster: Cluster;
  let installation: Installation;
  let project: Project;
  let token: string;
  before(async () => {
    place.afterwards(() => rmSync(folder, { recursive: true, force: true }));
    installation = await startInstallation(place, {}, { runner: false });
    project = await installation.project();
    const words = ['admin', 'runner', 'create', 'slurm', '--data-dir', installation.folder];
    ({ token } = JSON.parse((await command(words, installation.env)).stdout.toString()) as { token: string });
    writeFileSync(tokenFile, `${token}\n`, { mode: 0o600 });
    mkdirSync(scratch, { mode: 0o711 });
    cluster = await startCluster();
    place.afterwards(() => cluster.close());
  });
  after(async () => {
    for (const cleanUp of cleanUps.toReversed()) await cleanUp();
  });

  const scaler = (...more: string[]): Started => {
    const server = ['--url', installation.address(), '--ca-file', join(installation.folder, 'tls', 'cert.pem')];
    const own = ['--token-file', tokenFile, '--scratch', scratch, '--data-dir', join(folder, 'none')];
    const args = ['scale', 'slurm', '--max', String(most), '--partition', 'main', '--idle', '3', ...server, ...own];
    return startProgram(place, [...args, ...more], { ...installation.env, ...cluster.env });
  };
  const present = async () => (await cluster.jobs()).filter(({ state }) => !over.test(state));
  const until = async <T>(find: () => Promise<T | undefined | false> | T | undefined | false): Promise<T> => {
    for (;;) {
      const found = await find();
      if (found !== undefined && found !== false) return found;
      await pause(100);
    }
  };
  const attempts = async (): Promise<Build[]> =>
    (await Promise.all((await project.commits()).map((commit) => project.builds(commit)))).flat();
  const passed = async (): Promise<number> =>
    (await attempts()).filter(({ build_state: state }) => state === 'passed').length;

  /** Everything that runners had on this machine while somebody looked. */
  const watch = () => {
    const stop = new AbortController();
    const seen = { groups: new Set<string>(), jobsAtOnce: 0 };
    const watching = (async () => {
      for (; !stop.signal.aborted; await pause(150)) {
        seen.jobsAtOnce = Math.max(seen.jobsAtOnce, (await present().catch(() => [])).length);
        for (const runner of existsSync(scratch) ? readdirSync(scratch) : [])
          for (const kind of ['sandboxes', 'git-sandboxes'])
            for (const group of linesOf(join(scratch, runner, 'remote-runner', kind, 'groups'))) seen.groups.add(group);
      }
    })();
    return {
      seen,
      async end() {
        stop.abort();
        await watching;
      },
    };
  };

  test('runs 50 builds, with a node drained, a job cancelled and the scaler killed', limit, async (t) => {
    const secret = `! cat '${tokenFile}' && ! grep -rlE 'hrr_[A-Za-z0-9_-]{43}' /proc/*/environ /proc/*/cmdline /tmp`;
    // It sleeps until it is woken: its job is to be cancelled, however long that takes.
    const sleeping = 'sleep\x0054321.5\x00';
    const slow = await project.suite(t, 'slow', 'sleep 54321.5 || :');
    await project.suite(t, 'curious', secret);
    for (let at = 2; at < suites; at += 1) await project.suite(t, `suite ${at}`, `echo ${at}`);
    const watching = watch();
    t.after(() => watching.end());
    let scaling = scaler();
    const requests = [await project.ask('main')];
    await project.repository.commit({ message: 'Another' });
    requests.push(await project.ask('main'));

    // The job in which the first slow build runs is cancelled, as an operator does it.
    const cancelled = await until(() => jobAround(commandsWith(sleeping)[0]));
    assert.doesNotMatch(await cluster.runProgram('scontrol', 'show', 'job', cancelled, '--details'), new RegExp(token));
    assert.doesNotMatch(
      await cluster.runProgram('scontrol', 'write', 'batch_script', cancelled, '-'),
      new RegExp(token),
    );
    const names = await cluster.runProgram('squeue', '--noheader', '--array', '--format=%A %i');
    const [, name = ''] = new RegExp(`^${cancelled} (\\S+)$`, 'm').exec(names) ?? [];
    await cluster.runProgram('scancel', name);
    const waking = setInterval(() => {
      const others = commandsWith(sleeping).filter((pid) => ![undefined, cancelled].includes(jobAround(pid)));
      for (const pid of others) wake(pid);
    }, 200);
    t.after(() => clearInterval(waking));

    await until(async () => (await passed()) >= 8);
    await cluster.runProgram('scontrol', 'update', `NodeName=${nodes[0]}`, 'State=DRAIN', 'Reason=test');
    scaling.process.kill('SIGKILL');
    await scaling.exited;
    scaling = scaler();
    await until(() => /scaling/.test(scaling.said()));
    const second = scaler();
    assert.equal(await second.exited, 1);
    assert.match(second.said(), /another scaler uses the token/);
    await until(async () => (await passed()) >= 20);
    await cluster.runProgram('scontrol', 'update', `NodeName=${nodes[0]}`, 'State=RESUME');

    for (const request of requests)
      assert.equal((await project.end(request, 2 * longestWait)).build_state, 'passed', scaling.said());
    const builds = await attempts();
    const lost = builds.filter(({ build_state: state }) => state !== 'passed');
    assert.equal(builds.length - lost.length, 2 * suites);
    assert.deepEqual(
      lost.map(({ suite_id_str: suite, failure_reason: reason }) => [suite, reason]),
      [[slow, 'runner_lost']],
    );

    // The queue is empty: nothing is left, of jobs, processes, folders and control groups.
    await until(async () => (await present()).length === 0);
    await watching.end();
    assert.deepEqual(readdirSync(scratch), []);
    assert.deepEqual(
      commandsWith(scratch).filter((pid) => pid !== scaling.process.pid),
      [],
    );
    assert.ok(watching.seen.groups.size > 0);
    for (const group of watching.seen.groups) assert.equal(existsSync(group), false, group);

    // No job too many: none is started where one is about to take the work.
    assert.ok(watching.seen.jobsAtOnce <= most, `${watching.seen.jobsAtOnce} jobs at once`);
    const jobs = await cluster.jobs();
    const needed = builds.length + requests.length;
    assert.ok(jobs.length <= needed + most, `${jobs.length} jobs for ${needed}`);
    assert.deepEqual(
      jobs.filter(({ state }) => !/^(COMPLETED|CANCELLED)$/.test(state)),
      [],
    );

    scaling.process.kill('SIGTERM');
    assert.equal(await scaling.exited, 0, scaling.said());
    assert.doesNotMatch(scaling.said(), new RegExp(token));
  });
});

function linesOf(file: string): string[] {
  try {
    return readFileSync(file, 'utf8').split('\n').filter(Boolean);
  } catch {
    return []; // its runner has ended
  }
}

function wake(pid: number): void {
  try {
    process.kill(pid);
  } catch {
    // it has ended meanwhile
  }
}

/** The job in which a process runs. */
function jobAround(process_ = 0): string | undefined {
  for (let pid = process_; pid > 1;) {
    const [, job] = /^slurmstepd: \[(\d+)\./.exec(linesOf(`/proc/${pid}/cmdline`)[0] ?? '') ?? [];
    if (job !== undefined) return job;
    const stat = linesOf(`/proc/${pid}/stat`)[0] ?? '';
    pid = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1] ?? 0);
  }
  return undefined;
}
