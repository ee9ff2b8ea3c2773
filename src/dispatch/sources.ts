import type { Queries } from '../db/open.ts';
import { sealedLocation, type ProjectRow } from '../db/schema.ts';
import type { Vault } from '../lib/vault.ts';
import type { Access, Source } from '../protocol/index.ts';
import { jobOf } from '../queue/queue.ts';
import type { JobContext } from './job-handler.ts';

/** Where a project's code comes from, with the key to read it. */
export function sourceOf(
  { vault }: Pick<JobContext, 'vault'>,
  project: Pick<ProjectRow, 'id' | 'clone_url' | 'ssh_private_key'>,
): Source {
  const location = sealedLocation({ table: 'projects', column: 'ssh_private_key' }, project.id);
  return {
    projectId: String(project.id),
    repositoryUrl: project.clone_url,
    privateKey: vault.open(project.ssh_private_key, location),
  };
}

/** What opens the repository of a suite that this holder runs now. All other orders that need it contain it. */
export async function accessFor(db: Queries, vault: Vault, holder: string, claim: string): Promise<Access | undefined> {
  const job = await jobOf(db, claim);
  if (job?.holder !== holder || job.kind !== 'run_suite') return undefined;
  const project = await db
    .selectFrom('builds')
    .innerJoin('projects', 'projects.id', 'builds.project_id')
    .select(['projects.id', 'projects.clone_url', 'projects.ssh_private_key'])
    .where('builds.id', '=', job.subject_id)
    .executeTakeFirst();
  return project && sourceOf({ vault }, project);
}
