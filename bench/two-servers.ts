import type { Databases } from './support/databases.ts';
import { startBuilding } from './support/building.ts';
import { usableCores } from './support/servers.ts';
import { median, round, type Figure } from './support/report.ts';

const rounds = 3;
const many = 100;
const projects = 5;

/**
 * Whether a second server with its own runner, on the same database, builds more. Each server has its own core, as on a
 * machine of its own. Otherwise one server would use both cores already, and a second server could only share them.
 */
export async function twoServersFigures(databases: Databases): Promise<Figure[]> {
  const cores = usableCores();
  if (cores.length < 2) return [];
  const building = await startBuilding('true', await databases.settingsFor('PostgreSQL'), cores.slice(0, 2));
  try {
    const measure = async (): Promise<number> => {
      const rates: number[] = [];
      await building.perSecond(many, projects); // every runner gets the commits
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
