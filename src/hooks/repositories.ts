import { isIP } from 'node:net';
import type { RepositoryNames } from './facts.ts';

/** Whether a payload is about the project's own repository. What is built comes from the project's in any case. */

interface Address {
  host: string;
  path: string;
}

/**
 * A payload that does not say which repository it is about is taken for one about the project's. Else one of its names or
 * addresses has to fit the path, and one of its addresses the host, in whatever way they are spelled.
 */
export function isAbout(repositoryUrl: string, { names, addresses }: RepositoryNames): boolean {
  const own = parseAddress(repositoryUrl);
  const told = addresses.map(parseAddress).filter((address) => address !== undefined);
  if (own === undefined || (told.length === 0 && names.length === 0)) return true;
  const paths = [...told.map(({ path }) => path), ...names.map(plain)];
  return (
    paths.some((path) => fits(own.path, path)) && (told.length === 0 || told.some(({ host }) => areOne(own.host, host)))
  );
}

/** `user@host:path`, or a URL of any kind, of which the port does not count: SSH and HTTPS have different ones. */
function parseAddress(text: string): Address | undefined {
  if (/^[a-z+]+:\/\//i.test(text)) {
    const url = URL.parse(text);
    return url === null ? undefined : { host: url.hostname.toLowerCase(), path: plain(decoded(url.pathname)) };
  }
  const [, host, path] = /^(?:[^@/\s]+@)?(\[[^\]]+\]|[^:/\s]+):(.+)$/s.exec(text) ?? [];
  if (host === undefined || path === undefined) return undefined;
  const isAbsolute = /^[/~]/.test(path);
  return { host: host.toLowerCase(), path: `${isAbsolute ? '/' : ''}${plain(path)}` };
}

function decoded(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}

/** Forges take a name in capitals for the same, and with or without `.git`. */
function plain(path: string): string {
  return path
    .toLowerCase()
    .replaceAll(/^\/+|\/+$/g, '')
    .replace(/\.git$/, '');
}

/** Where the project names a folder of the host's, the forge's name is its end. */
function fits(own: string, path: string): boolean {
  return path !== '' && (plain(own) === path || (own.startsWith('/') && own.endsWith(`/${path}`)));
}

/**
 * A host without a dot in its name is mostly an alias in the operator's SSH configuration, and an address is one of many:
 * neither can be compared. Some forges answer SSH under a name below or above the one they show.
 */
function areOne(own: string, told: string): boolean {
  if (own === told || !own.includes('.') || isIP(own.replaceAll(/[[\]]/g, '')) !== 0) return true;
  return own.endsWith(`.${told}`) || told.endsWith(`.${own}`);
}
