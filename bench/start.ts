import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { median, round, type Benchmark } from './support/report.ts';
import { residentMegabytes, start as startProgram, startHeadrace } from './support/servers.ts';

const binary = join(import.meta.dirname, '..', 'bin', 'headrace');

/** How soon a server on an existing data folder answers, and what it takes while nobody asks anything. */
export const start: Benchmark = {
  name: 'start',
  async run() {
    const dataDir = mkdtempSync(join(tmpdir(), 'headrace-bench-'));
    const first = await startProgram(binary, ['serve', '--port', '0', '--data-dir', dataDir]);
    await first.stop();
    const seconds: number[] = [];
    for (let turn = 0; turn < 5; turn += 1) {
      const startedAt = performance.now();
      const again = await startProgram(binary, ['serve', '--port', '0', '--data-dir', dataDir]);
      await fetch(`${again.url}/ping`);
      seconds.push((performance.now() - startedAt) / 1000);
      await again.stop();
    }
    const idle = await startHeadrace(dataDir);
    await fetch(`${idle.url}/ping`);
    await new Promise((resolve) => setTimeout(resolve, 5000));
    const memory = residentMegabytes(idle.pid);
    await idle.stop();
    return [
      {
        what: 'start to first answer, seconds',
        value: median(seconds),
        limit: { atMost: 1.5 },
        from: seconds.map(round).join(', '),
      },
      { what: 'idle memory, MB', value: memory, limit: { atMost: 110 }, from: 'resident set 5 s after the start' },
    ];
  },
};
