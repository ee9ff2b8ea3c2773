import type { CleanUp } from '../test/support/folders.ts';
import { holdsOf } from '../test/support/largest.ts';
import { Service } from '../test/support/service.ts';
import type { Benchmark, Figure } from './support/report.ts';

/**
 * The longest time for which the largest allowed input keeps the server from other requests, in milliseconds of its
 * thread's processor time.
 */
export const largestHolds: Benchmark = {
  name: 'holds',
  async run(databases) {
    const figures: Figure[] = [];
    for (const name of ['SQLite', 'PostgreSQL'] as const) {
      await using stack = new AsyncDisposableStack();
      const afterwards = (cleanUp: CleanUp): void =>
        stack.defer(async () => {
          await cleanUp();
        });
      const { HEADRACE_DATABASE_URL: url = '' } = await databases.settingsFor(name);
      const place = { kind: url === '' ? 'sqlite' : 'postgres', migratedUrl: async () => url, afterwards } as const;
      const service = new Service(place, { isNew: true });
      await service.start();
      for await (const { name: input, longestMs, status } of holdsOf(service)) {
        const what = `${input} on ${name}, longest hold in ms`;
        figures.push({ what, value: longestMs, limit: { atMost: 50 }, from: `answered ${status}` });
      }
    }
    return figures;
  },
};
