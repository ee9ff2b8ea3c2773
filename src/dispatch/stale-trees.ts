import type { Runner } from '../auth/runners.ts';
import type { Database } from '../db/open.ts';
import { savedBy } from '../lifecycle/caches.ts';
import { packedOf } from '../lifecycle/kept-builds.ts';
import type { KeptTree } from '../protocol/index.ts';
import { goneProjects } from './gone-projects.ts';

/** Which of the trees that a runner keeps are no longer a cache, or files for other suites, of its projects. */
export async function staleTrees(db: Database, runner: Runner, kept: readonly KeptTree[]): Promise<KeptTree[]> {
  const projects = [...new Set(kept.map(({ project }) => project))];
  const gone = new Set(await goneProjects(db, runner, projects));
  const builds = kept.map(({ name }) => BigInt(name));
  const saved = (await savedBy(db.read, builds)).union(await packedOf(db.read, builds));
  return kept.filter(({ project, name }) => gone.has(project) || !saved.has(`${BigInt(project)} ${BigInt(name)}`));
}
