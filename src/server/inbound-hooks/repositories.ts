import { isIP } from 'node:net';
import { locationOf } from '../../shared/domain/git-address.ts';
import type { RepositoryNames } from './facts.ts';

/** Whatever the result, the code that is built comes from the project's repository. */

/**
 * True if the payload names no repository. Otherwise a name or address must match the path, and an address the host.
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

/** If the project's path starts with a folder of the host, the forge's name is the end of the path. */
function fits(own: string, path: string): boolean {
  return path !== '' && (plain(own) === path || (own.startsWith('/') && own.endsWith(`/${path}`)));
}

/**
 * A host without a dot is mostly an alias of the SSH configuration, and a host may have many IP addresses. So aliases
 * and IP addresses are not compared. Some forges serve SSH under a subdomain or parent domain of their web name.
 */
function areOne(own: string, named: string): boolean {
  if (own === named || !own.includes('.') || isIP(own.replaceAll(/[[\]]/g, '')) !== 0) return true;
  return own.endsWith(`.${named}`) || named.endsWith(`.${own}`);
}
