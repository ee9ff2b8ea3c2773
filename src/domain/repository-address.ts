/** The host, in lower case, and the path of a repository; a path from the root of the host begins with a slash. */
export interface RepositoryAddress {
  host: string;
  path: string;
}

/** `user@host:path`, or a URL of any kind. The port does not count: SSH and HTTPS have different ones. */
export function parseAddress(text: string): RepositoryAddress | undefined {
  if (/^[a-z+]+:\/\//i.test(text)) {
    const url = URL.parse(text);
    return url === null ? undefined : { host: url.hostname.toLowerCase(), path: trimmed(decoded(url.pathname)) };
  }
  const [, host, path] = /^(?:[^@/\s]+@)?(\[[^\]]+\]|[^:/\s]+):(.+)$/s.exec(text) ?? [];
  if (host === undefined || path === undefined) return undefined;
  const isAbsolute = /^[/~]/.test(path);
  return { host: host.toLowerCase(), path: `${isAbsolute ? '/' : ''}${trimmed(path)}` };
}

/** Without slashes around it, and without a `.git` at its end. */
function trimmed(path: string): string {
  return path.replaceAll(/^\/+|\/+$/g, '').replace(/\.git$/i, '');
}

function decoded(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}
