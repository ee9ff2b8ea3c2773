import { spawn } from 'node:child_process';
import { createWriteStream, rmSync } from 'node:fs';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { onBoth, postgresOver, type DatabaseName } from './support/databases.ts';
import { startProject, type BenchProject } from './support/project.ts';
import { watchGrowth } from './support/growth.ts';
import { untilIdle } from './support/idle.ts';
import { median, round, type Benchmark, type Figure } from './support/report.ts';
import { call } from './support/servers.ts';

const size = 100 * 1024 * 1024;
const command = `yes 'a line of a log, about as long as lines of logs are: compiled something, tested something' | head -c ${size}`;

/** A build prints 100 MB as fast as it can. Measures the time until the API has all of it, and the memory. */
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
    const growth: Record<DatabaseName, Figure[][]> = { SQLite: [], PostgreSQL: [] };
    const watched = async (one: BenchProject, database: DatabaseName): Promise<number> => {
      using watch = watchGrowth(one.pids());
      const taken = await logged(one);
      growth[database].push(watch.figures('logs of 100 MB', database));
      return taken;
    };
    for (let turn = 0; turn < 5; turn += 1) {
      ours.push(await watched(project, 'SQLite'));
      await untilIdle(project.service.pid); // the server packs the log now, which must not slow down the next build
      onPostgres.push(await watched(postgres, 'PostgreSQL'));
      await untilIdle(postgres.service.pid);
      bare.push(await piped(file));
    }
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
      ...growth.SQLite.reduce(larger),
      ...growth.PostgreSQL.reduce(larger),
    ];
  },
};

/** The larger of two measurements of each figure. */
function larger(one: Figure[], other: Figure[]): Figure[] {
  return one.map((figure, at) => {
    const again = other[at];
    return again && again.value > figure.value ? again : figure;
  });
}

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
