import type { Runner } from '../auth/runners.ts';
import type { Database } from '../db/open.ts';
import { savedBy } from '../outputs/caches.ts';
import { packedOf } from '../lifecycle/kept-builds.ts';
import { pointsIn } from '../lifecycle/step-points.ts';
import { dataIn } from '../outputs/service-data.ts';
import type { KeptTree } from '../../shared/protocol/index.ts';
import { goneProjects } from './gone-projects.ts';

/** Trees that the runner's projects no longer use as a cache, as files for other suites or a next attempt, or as service data. */
export async function staleTrees(db: Database, runner: Runner, kept: readonly KeptTree[]): Promise<KeptTree[]> {
  const projects = [...new Set(kept.map(({ project }) => project))];
  const gone = new Set(await goneProjects(db, runner, projects));
  const names = kept.map(({ name }) => BigInt(name));
  const saved = (await savedBy(db.read, names))
    .union(await packedOf(db.read, names))
    .union(await pointsIn(db.read, names))
    .union(await dataIn(db.read, names));
  return kept.filter(({ project, name }) => gone.has(project) || !saved.has(`${BigInt(project)} ${BigInt(name)}`));
}
