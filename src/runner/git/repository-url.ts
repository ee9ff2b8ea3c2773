/** The address of a repository: the scp-like form `user@host:path`, or a public https URL, split into parts. */
export interface RepositoryAddress {
  transport: 'ssh' | 'https';
  url: string;
  /** The destination for ssh: `user@host`, or `host` alone. Empty for https. */
  destination: string;
  host: string;
  path: string;
}

const longest = 1024;

/**
 * Reads only the scp-like form: undefined for `ssh://`, `ext::`, local paths and every text that git or ssh could take
 * for an option or a command.
 */
export function parseRepositoryUrl(url: string): RepositoryAddress | undefined {
  if (url.length > longest || url.includes('://')) return undefined;
  const parts = /^(?:([A-Za-z0-9_][\w.+-]*)@)?([A-Za-z0-9][\w.-]*|\[[0-9A-Fa-f:.]+\]):([^\s\p{Cc}]+)$/u.exec(url);
  if (parts === null) return undefined;
  const [, user, bracketed = '', path = ''] = parts;
  if (path.startsWith('-') || path.startsWith(':')) return undefined;
  const host = bracketed.replaceAll(/[[\]]/g, '');
  return { transport: 'ssh', url, host, path, destination: user === undefined ? host : `${user}@${host}` };
}

/** Reads an https URL. A user name and password in it are dropped: a public repository needs none. */
export function parsePublicUrl(text: string): RepositoryAddress | undefined {
  const parsed = text.length <= longest && /^https:\/\/[^\s\p{Cc}]+$/iu.test(text) ? URL.parse(text) : null;
  if (parsed === null || parsed.search !== '' || !/^[a-z0-9[]/.test(parsed.hostname)) return undefined;
  for (const part of ['username', 'password', 'hash'] as const) parsed[part] = '';
  const url = parsed.href.replace(/\/+$/, '');
  const path = url.slice(parsed.origin.length);
  return path === '' ? undefined : { transport: 'https', url, host: parsed.hostname, path, destination: '' };
}

/** Resolves a URL of `.gitmodules` against its repository: `../lib.git` becomes a full URL. */
export function resolveSubmoduleUrl(base: RepositoryAddress, url: string): RepositoryAddress | undefined {
  if (!/^\.\.?\//.test(url)) return /^https:/i.test(url) ? parsePublicUrl(url) : parseRepositoryUrl(url);
  const absolute = base.path.startsWith('/');
  const steps = base.path.replace(/\/+$/, '').split('/').filter(Boolean);
  for (const step of url.split('/')) {
    if (step === '..') {
      if (steps.pop() === undefined) return undefined; // above the root of the host: cannot be meant
    } else if (step !== '.' && step !== '') {
      steps.push(step);
    }
  }
  const prefix = base.url.slice(0, base.url.length - base.path.length);
  const parse = base.transport === 'https' ? parsePublicUrl : parseRepositoryUrl;
  return steps.length === 0 ? undefined : parse(prefix + (absolute ? '/' : '') + steps.join('/'));
}

/** Where anybody would ask for large files: the address follows from the repository's own, as git-lfs does it. */
export function publicLfsUrl({ transport, url: own, host, path }: RepositoryAddress): string | undefined {
  const url = transport === 'https' ? own : parsePublicUrl(`https://${host}/${path.replace(/^\/+/, '')}`)?.url;
  return url === undefined ? undefined : `${url.replace(/(\.git)?$/, '.git')}/info/lfs`;
}
