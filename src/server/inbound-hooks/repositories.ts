import { isIP } from 'node:net';
import { locationOf } from '../../shared/domain/git-address.ts';
import type { RepositoryNames } from './facts.ts';

/**
 * Whether a payload is about the project's own repository. The built code comes from the project's repository in any
 * case.
 */

/**
 * A payload without a repository counts as one about the project's own. Otherwise one of its names or addresses must
 * match the path, and one of its addresses the host, in any of the usual spellings.
 */
export function isAbout(cloneUrl: string, { names, addresses }: RepositoryNames): boolean {
  const own = locationOf(cloneUrl);
  const named = addresses.map(locationOf).filter((address) => address !== undefined);
  if (own === undefined || (named.length === 0 && names.length === 0)) return true;
  const paths = [...named.map(({ path }) => path), ...names].map(plain);
  return (
    paths.some((path) => fits(own.path.toLowerCase(), path)) &&
    (named.length === 0 || named.some(({ host }) => areOne(own.host, host)))
  );
}

/** Forges ignore the case of a name, and a `.git` at its end. */
function plain(path: string): string {
  return path
    .toLowerCase()
    .replaceAll(/^\/+|\/+$/g, '')
    .replace(/\.git$/, '');
}

/** Where the project's path has a folder of the host in front, the forge's name is the end of the path. */
function fits(own: string, path: string): boolean {
  return path !== '' && (plain(own) === path || (own.startsWith('/') && own.endsWith(`/${path}`)));
}

/**
 * A host without a dot is mostly an alias in the operator's SSH configuration, and a host may have many IP addresses:
 * neither can be compared. Some forges serve SSH under a subdomain or parent domain of their web name.
 */
function areOne(own: string, named: string): boolean {
  if (own === named || !own.includes('.') || isIP(own.replaceAll(/[[\]]/g, '')) !== 0) return true;
  return own.endsWith(`.${named}`) || named.endsWith(`.${own}`);
}
