import { spawn } from 'node:child_process';
import { createWriteStream, rmSync } from 'node:fs';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { onBoth, postgresOver } from './support/databases.ts';
import { startProject, type BenchProject } from './support/project.ts';
import { untilIdle } from './support/idle.ts';
import { median, round, type Benchmark } from './support/report.ts';
import { call, residentMegabytes } from './support/servers.ts';

const size = 100 * 1024 * 1024;
const command = `yes 'a line of a log, about as long as lines of logs are: compiled something, tested something' | head -c ${size}`;

/** A build that says 100 MB as fast as it can: how long until the API has all of it, and what it costs in memory. */
export const logs: Benchmark = {
  name: 'logs',
  async run(databases) {
    await using stack = new AsyncDisposableStack();
    const { sqlite: project, postgres } = await onBoth(databases, async (settings) => {
      const started = await startProject({}, settings);
      stack.defer(() => started.stop());
      await started.command(command);
      return started;
    });
    const file = join(project.service.dataDir, 'bare');
    const ours: number[] = [];
    const onPostgres: number[] = [];
    const bare: number[] = [];
    const growth = { server: 0, runner: 0 };
    for (let turn = 0; turn < 5; turn += 1) {
      const watch = watchMemory(project);
      ours.push(await logged(project));
      const grown = watch.stop();
      growth.server = Math.max(growth.server, grown.server);
      growth.runner = Math.max(growth.runner, grown.runner);
      await untilIdle(project.service.pid); // it packs the log now, which must not slow down the others
      onPostgres.push(await logged(postgres));
      await untilIdle(postgres.service.pid);
      bare.push(await piped(file));
    }
    const most = { atMost: 50 };
    return [
      {
        what: '100 MB of log to complete in the API, over a bare pipe into a file',
        value: median(ours) / median(bare),
        limit: { atMost: 5 },
        from: `${round(median(ours))} ms against ${round(median(bare))} ms`,
      },
      postgresOver(
        { sqlite: median(ours), postgres: median(onPostgres) },
        { what: 'the same', limit: { atMost: 2.5 }, unit: ' ms' },
      ),
      { what: 'growth of the server meanwhile, MB', value: growth.server, limit: most, from: 'resident memory' },
      { what: 'growth of the runner meanwhile, MB', value: growth.runner, limit: most, from: 'resident memory' },
    ];
  },
};

/** Milliseconds from the request for the build to the whole log in the API. */
async function logged(project: BenchProject): Promise<number> {
  const startedAt = performance.now();
  const build = await project.build();
  await project.end(build);
  const log = await call<{ size: number; complete: boolean }>(project.service, `${build}/log?limit=1`);
  const taken = performance.now() - startedAt;
  if (!log.complete || log.size !== size) throw new Error(`the log is not whole: ${JSON.stringify(log)}`);
  return taken;
}

async function piped(file: string): Promise<number> {
  const startedAt = performance.now();
  const child = spawn('sh', ['-c', command], { stdio: ['ignore', 'pipe', 'inherit'] });
  await pipeline(child.stdout, createWriteStream(file));
  const taken = performance.now() - startedAt;
  rmSync(file);
  return taken;
}

/** The most that server and runner have grown by since the watch began. */
function watchMemory(project: BenchProject) {
  const pids = { server: project.service.pid, runner: project.runnerPid() };
  const before = { server: residentMegabytes(pids.server), runner: residentMegabytes(pids.runner) };
  const most = { ...before };
  const look = (): void => {
    most.server = Math.max(most.server, residentMegabytes(pids.server));
    most.runner = Math.max(most.runner, residentMegabytes(pids.runner));
  };
  const timer = setInterval(look, 20);
  return {
    stop() {
      clearInterval(timer);
      look();
      return { server: most.server - before.server, runner: most.runner - before.runner };
    },
  };
}
