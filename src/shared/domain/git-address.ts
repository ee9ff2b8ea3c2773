export interface GitAddress {
  scheme: 'ssh' | 'https';
  /** As the user wrote it. git gets this form. */
  url: string;
  user: string;
  /** Without the brackets of an IPv6 address. */
  host: string;
  /** Undefined for the scheme's default. */
  port: number | undefined;
  /** In a URL it starts with a slash. Over SSH, the remote command gets it. */
  path: string;
}

const longest = 1024;
const user = String.raw`[A-Za-z0-9_][\w.+-]{0,63}`;
const host = String.raw`[A-Za-z0-9][\w.-]{0,252}|\[[0-9A-Fa-f:.]{2,45}\]`;
const scpLike = new RegExp(`^(?:(${user})@)?(${host}):(.+)$`, 's');
const urlLike = new RegExp(`^(ssh|https)://(?:(${user})@)?(${host})(?::([1-9][0-9]{0,4}))?(/.+)$`, 's');

/**
 * Reads `user@host:path`, `ssh://user@host:port/path` and `https://host:port/path`. Undefined for other transports
 * (`ext::`, `file://`), for credentials in https, and for texts that git or ssh could take for an option or a command:
 * no part may start with a dash.
 */
export function parseGitAddress(url: string): GitAddress | undefined {
  if (url.length > longest || /[\s\p{Cc}]/u.test(url)) return undefined;
  const [, scheme, named = '', name = '', port, path = ''] = urlLike.exec(url) ?? [];
  if (scheme === undefined) return url.includes('://') ? undefined : parseScpLike(url);
  if (scheme === 'https' && (named !== '' || /[?#\\]/.test(path))) return undefined;
  const decoded = decode(path);
  if (decoded === undefined || Number(port) > 65_535 || !isPath(decoded) || !isFolded(path)) return undefined;
  if (scheme === 'ssh' && /\s/.test(decoded)) return undefined; // scp-like addresses have none
  return {
    scheme: scheme === 'ssh' ? 'ssh' : 'https',
    url,
    user: named,
    host: name.replaceAll(/[[\]]/g, ''),
    port: port === undefined ? undefined : Number(port),
    // As git does it: a user's folder is not below the root.
    path: scheme === 'ssh' ? decoded.replace(/^\/~/, '~') : path,
  };
}

function parseScpLike(url: string): GitAddress | undefined {
  const [, named = '', name, path = ''] = scpLike.exec(url) ?? [];
  if (name === undefined || /^[-:]/.test(path) || !isPath(path)) return undefined;
  return { scheme: 'ssh', url, user: named, host: name.replaceAll(/[[\]]/g, ''), port: undefined, path };
}

/** Upward segments are refused, because they would give one repository two names. */
function isPath(path: string): boolean {
  const segments = path.split('/');
  return (
    !/\p{Cc}/u.test(path) && !/^\/*(?:\.git)?\/*$/.test(path) && !segments.some((segment) => /^\.\.?$/.test(segment))
  );
}

/** True if no slash, dot or percent sign is percent-encoded. */
function isFolded(path: string): boolean {
  return !/%(?:2e|2f|5c|25)/i.test(path);
}

function decode(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

export function destinationOf({ user: named, host: name }: GitAddress): string {
  return named === '' ? name : `${named}@${name}`;
}

export function hostAndPort({ host: name, port = 443 }: GitAddress): string {
  return `${name.includes(':') ? `[${name}]` : name}:${port}`;
}

/** The form `user@host:path`. An https address names no user, and forges accept `git`. */
export function scpLikeForm(url: string): string {
  const address = parseGitAddress(url);
  if (address === undefined || !url.includes('://')) return url;
  const { user: named, host: name, path } = address;
  return `${named || 'git'}@${name.includes(':') ? `[${name}]` : name}:${path.replace(/^\/+/, '')}`;
}

/** Repairs a pasted address if possible. Passwords stay in, and are refused later. */
export function pastedAddress(text: string): string {
  const plain = text
    .trim()
    .replace(/^git\s+clone\s+/, '')
    .replace(/^git\+/, '')
    .replace(/^[A-Z]+:\/\//i, (scheme) => scheme.toLowerCase())
    .replace(/^http:/, 'https:');
  if (/^ssh:\/\/[^@/]+\//.test(plain)) return plain.replace('ssh://', 'ssh://git@');
  const url = /^[\w-]+(?:\.[\w-]+)+(?::[0-9]+)?\/[^:]+$/.test(plain) ? `https://${plain}` : plain;
  if (!url.startsWith('https://')) return url;
  return url
    .replace(/^https:\/\/[^:@/]*@/, 'https://')
    .replace(/[?#].*$/, '')
    .replace(/\/+$/, '');
}

/** The host is in lower case. A path from the root of a host starts with a slash. */
export interface RepositoryLocation {
  host: string;
  path: string;
}

/** Takes addresses of any kind. The port does not count: each scheme has its own. */
export function locationOf(text: string): RepositoryLocation | undefined {
  if (/^[a-z+]+:\/\//i.test(text)) {
    const url = URL.parse(text);
    if (url === null) return undefined;
    return { host: canonicalHost(url.hostname), path: trimmed(decode(url.pathname) ?? url.pathname) };
  }
  const [, name, path] = /^(?:[^@/\s]+@)?(\[[^\]]+\]|[^:/\s]+):(.+)$/s.exec(text) ?? [];
  if (name === undefined || path === undefined) return undefined;
  return { host: canonicalHost(name), path: `${/^[/~]/.test(path) ? '/' : ''}${trimmed(decode(path) ?? path)}` };
}

/** Lower case. An IP address has several spellings. */
function canonicalHost(name: string): string {
  return URL.parse(`https://${name}`)?.hostname ?? name.toLowerCase();
}

/** Without slashes around it, and without a final `.git`. */
function trimmed(path: string): string {
  return path.replaceAll(/^\/+|\/+$/g, '').replace(/\.git$/i, '');
}

/** One text for all addresses of a repository. Forges ignore the case of names. */
export function repositoryKey(text: string): string {
  const { host: name, path } = locationOf(text) ?? { host: '', path: text };
  return `${name}/${trimmed(path.replace(/^\/*(?:~\/)?/, '')).toLowerCase()}`;
}

/** The transport does not matter. */
export function isSameRepository(one: string, other: string): boolean {
  return repositoryKey(one) === repositoryKey(other);
}
