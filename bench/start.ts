import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onBoth } from './support/databases.ts';
import { median, round, type Benchmark } from './support/report.ts';
import { residentMegabytes, start as startProgram, startHeadrace } from './support/servers.ts';

const binary = join(import.meta.dirname, '..', 'bin', 'headrace');

/** Time until a server on an existing data folder answers, and its memory without requests. */
export const start: Benchmark = {
  name: 'start',
  async run(databases) {
    const { sqlite, postgres } = await onBoth(databases, async (settings, name) => {
      const dataDir = mkdtempSync(join(tmpdir(), 'headrace-bench-'));
      const seconds = await startsOn(dataDir, settings);
      const figure = {
        what: `start to first answer on ${name}, seconds`,
        value: median(seconds),
        limit: { atMost: 1.5 },
        from: seconds.map(round).join(', '),
      };
      return { dataDir, figure };
    });
    rmSync(postgres.dataDir, { recursive: true, force: true });
    const idle = await startHeadrace(sqlite.dataDir);
    await fetch(`${idle.url}/ping`);
    await new Promise((resolve) => setTimeout(resolve, 5000));
    const memory = residentMegabytes(idle.pid);
    await idle.stop();
    const from = 'resident set 5 s after the start';
    return [sqlite.figure, postgres.figure, { what: 'idle memory, MB', value: memory, limit: { atMost: 110 }, from }];
  },
};

/** Seconds from the start of the process to the first answered request, five times. */
async function startsOn(dataDir: string, settings: NodeJS.ProcessEnv): Promise<number[]> {
  const args = ['serve', '--port', '0', '--data-dir', dataDir];
  const first = await startProgram(binary, args, settings);
  await first.stop();
  const seconds: number[] = [];
  for (let turn = 0; turn < 5; turn += 1) {
    const startedAt = performance.now();
    const again = await startProgram(binary, args, settings);
    await fetch(`${again.url}/ping`);
    seconds.push((performance.now() - startedAt) / 1000);
    await again.stop();
  }
  return seconds;
}
