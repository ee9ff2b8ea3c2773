import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { onBoth, postgresOver } from './support/databases.ts';
import { requestsPerSecond } from './support/load.ts';
import { startProject, type BenchProject } from './support/project.ts';
import { median, p95, round, type Benchmark } from './support/report.ts';
import { call } from './support/servers.ts';

const many = 500;
const rounds = 3;
const seconds = 6;
/** Ten lines per second, each with its time of writing, until the build is cancelled. */
const command = 'while :; do echo "a line of a log, written at @$(date +%s%N)@"; sleep 0.1; done';
/**
 * Real clients are on other machines. Here a write to a client's connection wakes the client on the writer's core.
 * There it would wait until the next tick, even if another core is idle. So the clients have their own core.
 */
const clientsCore = String(availableParallelism() - 1);

/** Many clients follow one build. Measures their delay, and the speed that remains for other requests. */
export const followers: Benchmark = {
  name: 'followers',
  async run(databases) {
    await using stack = new AsyncDisposableStack();
    const { sqlite: project, postgres } = await onBoth(databases, async (settings) => {
      const started = await startProject({}, settings);
      stack.defer(() => started.stop());
      await started.command(command);
      return started;
    });
    const { service } = project;
    const target = { url: `${service.url}${project.path}`, headers: { authorization: service.authorization } };
    const alone: number[] = [];
    let crowd: number[] = [];
    let crowdOnPostgres: number[] = [];
    const idle: number[] = [];
    const busy: number[] = [];
    await requestsPerSecond(target, 32, 3); // warms up: the code is compiled
    for (let round = 0; round < rounds; round += 1) {
      alone.push(...(await followed(project, 1)).delays);
      crowd = crowd.concat((await followed(project, many)).delays);
      crowdOnPostgres = crowdOnPostgres.concat((await followed(postgres, many)).delays);
      idle.push(await requestsPerSecond(target));
      busy.push((await followed(project, many, () => requestsPerSecond(target))).meanwhile ?? 0);
    }
    return [
      {
        what: `p95 delay of ${many} firehose clients, over that of one`,
        value: p95(crowd) / p95(alone),
        limit: { atMost: 5 },
        from: `${round(p95(crowd))} ms against ${round(p95(alone))} ms, ten lines a second`,
      },
      postgresOver(
        { sqlite: p95(crowd), postgres: p95(crowdOnPostgres) },
        { what: `p95 delay of ${many} firehose clients`, limit: { atMost: 1.5 }, unit: ' ms' },
      ),
      {
        what: `reads with ${many} firehose clients, share of those without`,
        value: median(busy) / median(idle),
        limit: { atLeast: 0.6 },
        from: `${round(median(busy))}/s against ${round(median(idle))}/s`,
      },
    ];
  },
};

/** Clients follow a build for a while. `measure` runs once all are connected. */
async function followed(project: BenchProject, clients: number, measure?: () => Promise<number>) {
  const { service } = project;
  const build = await project.build();
  const program = join(import.meta.dirname, 'support', 'followers.ts');
  const args = [program, `${service.url}${build}/firehose`, service.authorization, String(clients), String(seconds)];
  const child = spawn('taskset', ['-c', clientsCore, process.execPath, '--no-warnings', ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let output = '';
  const there = Promise.withResolvers<void>();
  child.stdout.on('data', (chunk: Buffer) => {
    output += chunk.toString();
    if (output.includes('listening')) there.resolve();
  });
  const gone = once(child, 'close');
  await there.promise;
  const meanwhile = await measure?.();
  await gone;
  await call(service, `${build}/cancel`, {});
  await project.end(build);
  return { delays: JSON.parse(output.split('\n')[1] ?? '[]') as number[], meanwhile };
}
