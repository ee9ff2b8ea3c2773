import type { DatabaseName } from './databases.ts';
import { round, type Figure } from './report.ts';
import { residentMegabytes } from './servers.ts';

const limit = 50;

/** The growth of processes' memory since the beginning. */
export interface Growth extends Disposable {
  /** The figures so far. `what` names the work of these processes in the meantime. */
  figures(what: string, database: DatabaseName): Figure[];
}

/** Watches processes by their names. */
export function watchGrowth(pids: Record<string, number>): Growth {
  const watched = Object.entries(pids).map(([name, pid]) => {
    const before = residentMegabytes(pid);
    return { name, pid, before, most: before };
  });
  const look = (): void => {
    for (const one of watched) one.most = Math.max(one.most, residentMegabytes(one.pid));
  };
  const watching = setInterval(look, 20);
  return {
    figures: (what, database) => {
      look();
      return watched.map(({ name, before, most }) => ({
        what: `memory that ${what} add to the ${name}, MB (${database})`,
        value: most - before,
        limit: { atMost: limit },
        from: `${round(most)} MB at most, ${round(before)} MB before`,
      }));
    },
    [Symbol.dispose]: () => clearInterval(watching),
  };
}
