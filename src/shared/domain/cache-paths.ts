import { longest, most } from './bounds.ts';

/**
 * The paths that a suite keeps from build to build: relative to the workspace, or under `~`, the home of builds. A path
 * is plain: no `..`, nothing absolute, none inside another, neither the whole workspace or home nor git's own folder.
 */

/** Whether every path is one, and none is inside another. */
export function areCachePaths(paths: readonly string[]): boolean {
  const keys = paths.map((path) => partsOf(path));
  if (paths.length > most.cachePaths || !keys.every((parts) => parts !== undefined)) return false;
  const places = keys.map((parts) => `${parts?.join('/')}/`);
  return places.every((place, at) => places.every((other, index) => index === at || !place.startsWith(other)));
}

/** Where a path is: below the workspace or the home, without a slash at its end. */
export function locateCachePath(path: string): { root: 'workspace' | 'home'; path: string } {
  const plain = path.replace(/\/+$/, '');
  return plain.startsWith('~/') ? { root: 'home', path: plain.slice(2) } : { root: 'workspace', path: plain };
}

/** The parts of a path, the first of which is `~` for the home; undefined where it is no path for a cache. */
function partsOf(path: string): string[] | undefined {
  if (path.length > longest.cachePath || !path.isWellFormed() || /\p{Cc}/u.test(path)) return undefined;
  const parts = path.replace(/\/+$/, '').split('/');
  if (parts.some((part) => part === '' || part === '.' || part === '..' || Buffer.byteLength(part) > 255))
    return undefined;
  if (parts[0] === '~') return parts.length > 1 ? parts : undefined;
  if (parts[0] === '.git' || parts[0]?.startsWith('~')) return undefined;
  return parts;
}
