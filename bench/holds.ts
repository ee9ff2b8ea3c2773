import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { longestTurn } from '../test/support/event-loop.ts';
import type { CleanUp } from '../test/support/folders.ts';
import { largestInputs } from '../test/support/largest.ts';
import { Service } from '../test/support/service.ts';
import type { Benchmark, Figure } from './support/report.ts';

/**
 * For how long the largest input that is allowed keeps the server from answering others, in milliseconds of its thread's
 * processor time. The client is in the same thread, so its part counts too.
 */
export const largestHolds: Benchmark = {
  name: 'holds',
  async run(databases) {
    const figures: Figure[] = [];
    for (const kind of ['sqlite', 'postgres'] as const) {
      await using stack = new AsyncDisposableStack();
      const folder = mkdtempSync(join(tmpdir(), 'headrace-bench-'));
      stack.defer(() => rmSync(folder, { recursive: true }));
      const { HEADRACE_DATABASE_URL: url = join(folder, 'holds.db') } = await databases.settingsFor(
        kind === 'sqlite' ? 'SQLite' : 'PostgreSQL',
      );
      const afterwards = (cleanUp: CleanUp): void =>
        stack.defer(async () => {
          await cleanUp();
        });
      const place = { kind, migratedUrl: async () => url, afterwards };
      const service = new Service(place, { settings: { database_url: url }, ownCertificate: true });
      await service.start();
      for await (const { name, work } of largestInputs(service)) {
        const { result, longestMs } = await longestTurn(work);
        figures.push({
          what: `${name} on ${kind}, longest hold in ms`,
          value: longestMs,
          limit: { atMost: 50 },
          from: `answered ${result.status}`,
        });
      }
    }
    return figures;
  },
};
