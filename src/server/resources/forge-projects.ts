import type { Queries } from '../db/open.ts';
import type { ForgeRow } from '../db/schema.ts';
import { locationOf, parseGitAddress } from '../../shared/domain/git-address.ts';
import type { ForgeRepository } from '../forges/forge.ts';
import { gitFolderOf } from '../forges/index.ts';
import { isAbout } from '../inbound-hooks/repositories.ts';

/** Matches projects and repositories of a forge by host and path, in any spelling. */

type Named = Pick<ForgeRepository, 'full_name' | 'ssh_url' | 'https_url'>;

export function leadsTo(address: string, { full_name: name, ssh_url: ssh, https_url: https }: Named): boolean {
  return isAbout(address, { names: [name], addresses: [ssh, https].filter((one) => one !== '') });
}

/** Undefined if the address does not end with the old name. */
export function renamedAddress(address: string, from: string, to: string): string | undefined {
  const bare = address.replace(/(?:\.git)?\/*$/i, '');
  const isNamed = ['/', ':'].some((before) => bare.toLowerCase().endsWith(`${before}${from.toLowerCase()}`));
  return isNamed ? `${bare.slice(0, -from.length)}${to}${address.slice(bare.length)}` : undefined;
}

/** The repository's name in an address. Over HTTPS, the folders of the forge's own address are removed. */
export function nameAt(forge: ForgeRow, address: string): string {
  const path = locationOf(address)?.path ?? '';
  const folder = parseGitAddress(address)?.scheme === 'https' ? gitFolderOf(forge) : '';
  return path.toLowerCase().startsWith(folder.toLowerCase()) ? path.slice(folder.length) : path;
}

interface OnRepository {
  project_id: bigint | null;
  project_id_str: string;
}

export async function projectsAt(db: Queries, ownerId: bigint): Promise<(repository: Named) => OnRepository> {
  const projects = await db
    .selectFrom('projects')
    .select(['id', 'clone_url'])
    .where('owner_id', '=', ownerId)
    .orderBy('id')
    .execute();
  const byPath = Map.groupBy(projects, ({ clone_url: url }) => locationOf(url)?.path.toLowerCase());
  return (repository) => {
    const { full_name: name, ssh_url: ssh, https_url: https } = repository;
    const told = [ssh, https].map((address) => locationOf(address)?.path ?? name);
    const paths = new Set([name, ...told].map((path) => path.toLowerCase()));
    const alike = [...paths].flatMap((path) => byPath.get(path) ?? []);
    const [found] = alike
      .filter(({ clone_url: url }) => leadsTo(url, repository))
      .toSorted((one, other) => (one.id < other.id ? -1 : 1));
    return { project_id: found?.id ?? null, project_id_str: found ? String(found.id) : '' };
  };
}
