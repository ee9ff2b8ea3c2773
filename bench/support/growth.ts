import type { DatabaseName } from './databases.ts';
import { round, type Figure } from './report.ts';
import { residentMegabytes, type Service } from './servers.ts';

const limit = 50;

/** How much more memory a server and its runner take than at the beginning. */
export interface Growth extends Disposable {
  figures(what: string, database: DatabaseName): Figure[];
}

export function watchGrowth({ pid }: Pick<Service, 'pid'>, runnerPid: number): Growth {
  const watched = Object.entries({ server: pid, runner: runnerPid }).map(([name, one]) => {
    const before = residentMegabytes(one);
    return { name, pid: one, before, most: before };
  });
  const watching = setInterval(() => {
    for (const one of watched) one.most = Math.max(one.most, residentMegabytes(one.pid));
  }, 20);
  return {
    figures: (what, database) =>
      watched.map(({ name, before, most }) => ({
        what: `memory that ${what} add to the ${name}, MB (${database})`,
        value: most - before,
        limit: { atMost: limit },
        from: `${round(most)} MB at most, ${round(before)} MB before`,
      })),
    [Symbol.dispose]: () => clearInterval(watching),
  };
}
