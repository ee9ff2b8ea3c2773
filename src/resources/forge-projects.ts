import type { Queries } from '../db/open.ts';
import { locationOf } from '../domain/git-address.ts';
import type { ForgeRepository } from '../forges/forge.ts';
import { isAbout } from '../inbound-hooks/repositories.ts';

/** Which projects are on which repositories of a forge: host and path are compared, whichever way they are written. */

type Named = Pick<ForgeRepository, 'full_name' | 'ssh_url' | 'https_url'>;

/** Whether an address leads to this repository. */
export function leadsTo(address: string, { full_name: name, ssh_url: ssh, https_url: https }: Named): boolean {
  return isAbout(address, { names: [name], addresses: [ssh, https].filter((one) => one !== '') });
}

interface OnRepository {
  project_id: bigint | null;
  project_id_str: string;
}

/** Finds the account's own project on a repository; of several the oldest. */
export async function projectsAt(db: Queries, ownerId: bigint): Promise<(repository: Named) => OnRepository> {
  const projects = await db
    .selectFrom('projects')
    .select(['id', 'clone_url'])
    .where('owner_id', '=', ownerId)
    .orderBy('id')
    .execute();
  const byPath = Map.groupBy(projects, ({ clone_url: url }) => locationOf(url)?.path.toLowerCase());
  return (repository) => {
    const alike = byPath.get(repository.full_name.toLowerCase()) ?? [];
    const found = alike.find(({ clone_url: url }) => leadsTo(url, repository));
    return { project_id: found?.id ?? null, project_id_str: found ? String(found.id) : '' };
  };
}
