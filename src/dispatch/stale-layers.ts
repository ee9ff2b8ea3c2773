import type { Runner } from '../auth/runners.ts';
import type { Database } from '../db/open.ts';
import { goneLayers } from '../lifecycle/caches.ts';
import type { KeptLayer } from '../protocol/index.ts';
import { goneProjects } from './gone-projects.ts';

/** Of the layers that a runner keeps, those that no cache of a project that it works for has any more. */
export async function staleLayers(db: Database, runner: Runner, kept: readonly KeptLayer[]): Promise<KeptLayer[]> {
  const projects = [...new Set(kept.map(({ project }) => project))];
  const gone = new Set(await goneProjects(db, runner, projects));
  const asked = kept.filter(({ project }) => !gone.has(project));
  const known = await goneLayers(
    db.read,
    asked.map(({ project, name }) => ({ project: BigInt(project), build: BigInt(name) })),
  );
  return kept.filter(({ project, name }) => gone.has(project) || known.has(`${BigInt(project)} ${BigInt(name)}`));
}
