import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { requestsPerSecond } from './support/load.ts';
import { startProject, type BenchProject } from './support/project.ts';
import { median, round, type Benchmark } from './support/report.ts';
import { call } from './support/servers.ts';

const many = 500;
const rounds = 3;
const seconds = 6;
/** Ten lines in a second, each with the moment it was written, until it is called off. */
const command = 'while :; do echo "a line of a log, written at @$(date +%s%N)@"; sleep 0.1; done';

/** Many who follow one build: how late they hear, and what is left for everybody else. */
export const followers: Benchmark = {
  name: 'followers',
  async run() {
    const project = await startProject();
    const { service } = project;
    const target = { url: `${service.url}${project.path}`, headers: { authorization: service.authorization } };
    try {
      await project.command(command);
      const alone: number[] = [];
      const crowd: number[] = [];
      const idle: number[] = [];
      const busy: number[] = [];
      await requestsPerSecond(target, 32, 3); // until the code is compiled
      for (let round = 0; round < rounds; round += 1) {
        alone.push((await followed(project, 1)).delay);
        crowd.push((await followed(project, many)).delay);
        idle.push(await requestsPerSecond(target));
        busy.push((await followed(project, many, () => requestsPerSecond(target))).meanwhile ?? 0);
      }
      return [
        {
          what: `p95 delay of ${many} firehose clients, over that of one`,
          value: median(crowd) / median(alone),
          limit: { atMost: 5 },
          from: `${round(median(crowd))} ms against ${round(median(alone))} ms, ten lines a second`,
        },
        {
          what: `reads with ${many} firehose clients, share of those without`,
          value: median(busy) / median(idle),
          limit: { atLeast: 0.6 },
          from: `${round(median(busy))}/s against ${round(median(idle))}/s`,
        },
      ];
    } finally {
      await project.stop();
    }
  },
};

/** Lets clients follow a build for a while, and something be measured once they are all there. */
async function followed(project: BenchProject, clients: number, measure?: () => Promise<number>) {
  const { service } = project;
  const build = await project.build();
  const program = join(import.meta.dirname, 'support', 'followers.ts');
  const args = [program, `${service.url}${build}/firehose`, service.authorization, String(clients), String(seconds)];
  const child = spawn(process.execPath, ['--no-warnings', ...args], {
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
  return { delay: Number(output.split('\n')[1]), meanwhile };
}
