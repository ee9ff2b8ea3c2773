import { longest, most } from './bounds.ts';

/**
 * Cached paths are relative to the workspace, or under `~`, the home of builds. They contain no `..` and are not
 * nested. The whole workspace or home and git's own folder are refused.
 */

export function areCachePaths(paths: readonly string[]): boolean {
  const keys = paths.map((path) => partsOf(path));
  if (paths.length > most.cachePaths || !keys.every((parts) => parts !== undefined)) return false;
  const places = keys.map((parts) => `${parts?.join('/')}/`);
  return places.every((place, at) => places.every((other, index) => index === at || !place.startsWith(other)));
}

/** Without a trailing slash. */
export function locateCachePath(path: string): { root: 'workspace' | 'home'; path: string } {
  const plain = path.replace(/\/+$/, '');
  return plain.startsWith('~/') ? { root: 'home', path: plain.slice(2) } : { root: 'workspace', path: plain };
}

/** The first part is `~` for the home. Undefined if the path cannot be cached. */
function partsOf(path: string): string[] | undefined {
  if (path.length > longest.cachePath || !path.isWellFormed() || /\p{Cc}/u.test(path)) return undefined;
  const parts = path.replace(/\/+$/, '').split('/');
  if (parts.some((part) => part === '' || part === '.' || part === '..' || Buffer.byteLength(part) > 255))
    return undefined;
  if (parts[0] === '~') return parts.length > 1 ? parts : undefined;
  if (parts[0] === '.git' || parts[0]?.startsWith('~')) return undefined;
  return parts;
}
