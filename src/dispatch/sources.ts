import { sealedPlace, type ProjectRow } from '../db/schema.ts';
import type { Source } from '../protocol.ts';
import type { Bench } from './kind.ts';

/** Where a project's code comes from, with the key that opens it. */
export function sourceOf(
  { vault }: Bench,
  project: Pick<ProjectRow, 'id' | 'repository_url' | 'ssh_private_key'>,
): Source {
  const place = sealedPlace({ table: 'projects', column: 'ssh_private_key' }, project.id);
  return {
    projectId: String(project.id),
    repositoryUrl: project.repository_url,
    privateKey: vault.open(project.ssh_private_key, place),
  };
}
