import type { Databases } from './support/databases.ts';
import { startBuilding } from './support/building.ts';
import { usableCores } from './support/servers.ts';
import { median, round, type Figure } from './support/report.ts';

const rounds = 3;
const many = 100;
const projects = 5;

/**
 * Whether a second server with a runner of its own, on the same database, adds to what is built. Each of the two has a
 * core for itself, as it would have a machine: one server alone uses both cores already, and a second one can only share
 * them with it.
 */
export async function twoServersFigures(databases: Databases): Promise<Figure[]> {
  const cores = usableCores();
  if (cores.length < 2) return [];
  const building = await startBuilding('true', await databases.settingsFor('PostgreSQL'), cores.slice(0, 2));
  try {
    const measure = async (): Promise<number> => {
      const rates: number[] = [];
      await building.perSecond(many, projects); // every runner has the commits
      for (let turn = 0; turn < rounds; turn += 1) rates.push(await building.perSecond(many, projects));
      return median(rates);
    };
    const alone = await measure();
    await building.addServer();
    const together = await measure();
    return [
      {
        what: 'no-op builds with two servers and two runners on PostgreSQL, share of one',
        value: together / alone,
        limit: { atLeast: 1 },
        from: `${round(together)}/s against ${round(alone)}/s, a core for each server with its runner`,
      },
    ];
  } finally {
    await building.stop();
  }
}
