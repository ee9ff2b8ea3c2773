import { expectSuccess } from './git.ts';
import type { Source } from './sources.ts';
import { parseGitAddress, type GitAddress } from '../../shared/domain/git-address.ts';
import type { Session } from './session.ts';
import { trimEnd } from './phrases.ts';

export interface Submodule {
  path: string;
  commit: string;
  address: GitAddress;
}

/** At most this many are looked up. Far fewer are made (checkout.ts). */
const mostDeclared = 500;
const longestPath = 1024;

/**
 * The key is not used for forks, or for repositories fetched without credentials. Otherwise an outsider could read
 * private repositories that the key opens.
 */
export async function submodulesOf(
  session: Session,
  source: Source,
  sha: string,
  leaveOut: (sentence: string) => void,
): Promise<Submodule[]> {
  const declared = await readGitmodules(session, sha);
  if (declared.size === 0) return [];
  if (declared.size > mostDeclared) {
    leaveOut(`Of the ${declared.size} submodules that are declared, only the first ${mostDeclared} are read.`);
  }
  const paths = Array.from(declared.keys()).slice(0, mostDeclared);
  const commits = await linkedCommits(session, sha, paths);
  const wanted: Submodule[] = [];
  for (const path of paths) {
    const [url = '', commit] = [declared.get(path), commits.get(path)];
    if (commit === undefined) continue; // declared, but not in the tree
    const address = resolveSubmoduleUrl(source.address, url);
    if (address === undefined) {
      leaveOut(
        `Submodule ${path} is skipped: ${JSON.stringify(withoutPassword(url).slice(0, longestPath))} is neither of the form user@host:path, ` +
          'for the project’s key, nor a public https address.',
      );
    } else if (address.scheme === 'ssh' && (source.isFork || source.address.scheme === 'https')) {
      const who = source.isFork ? 'this commit, which comes from a fork,' : 'a repository that is read over HTTPS';
      leaveOut(
        `Submodule ${path} is skipped: ${who} names ${address.url}, and the key of the project is not used for addresses from ` +
          'there. A public one can have an address like https://….',
      );
    } else {
      wanted.push({ path, commit, address });
    }
  }
  return wanted;
}

export function resolveSubmoduleUrl(base: GitAddress, url: string): GitAddress | undefined {
  if (/^https:/i.test(url))
    return parseGitAddress(
      `https${withoutPassword(url)
        .slice('https'.length)
        .replace(/\/*(?:#.*)?$/, '')}`,
    );
  if (!/^\.\.?\//.test(url)) return parseGitAddress(url);
  const [host] = /^\w+:\/\/[^/]+/.exec(base.url) ?? [base.url.slice(0, -base.path.length)];
  const path = base.url.slice(host.length);
  const steps = path.split('/').filter(Boolean);
  for (const step of url.split('/')) {
    if (step === '..') {
      if (steps.pop() === undefined) return undefined; // above the root of the host, so the URL is a mistake
    } else if (step !== '.' && step !== '') {
      steps.push(step);
    }
  }
  return parseGitAddress(host + (path.startsWith('/') ? '/' : '') + steps.join('/'));
}

/** Accepts any kind of address. A public repository needs no password. */
function withoutPassword(url: string): string {
  return url.replace(/^([\w+.-]{1,20}:\/\/)[^/@]*@/, '$1');
}

/** Maps paths to URLs. Ignores the names in `.gitmodules`: used as folder names, they have been an attack before. */
async function readGitmodules(session: Session, sha: string): Promise<Map<string, string>> {
  const args = ['config', `--blob=${sha}:.gitmodules`, '-z', '--get-regexp', String.raw`^submodule\..*\.(path|url)$`];
  const listed = await session.git(args, { maxOutput: 1024 * 1024 });
  const modules = new Map<string, { path?: string; url?: string }>();
  if (listed.status !== 0 && !listed.truncated) return new Map(); // the file is missing, or git cannot read it
  for (const entry of listed.stdout.toString().split('\0').slice(0, -1)) {
    const lineEnd = entry.indexOf('\n');
    const [key, value] = lineEnd < 0 ? [entry, ''] : [entry.slice(0, lineEnd), entry.slice(lineEnd + 1)];
    const dot = key.lastIndexOf('.');
    const name = key.slice('submodule.'.length, dot);
    modules.set(name, { ...modules.get(name), [key.slice(dot + 1)]: value });
  }
  const declared = new Map<string, string>();
  for (const { path, url } of modules.values()) {
    const place = trimEnd(path ?? '', '/');
    if (url !== undefined && isPlace(place)) declared.set(place, url);
  }
  return declared;
}

function isPlace(path: string): boolean {
  if (path.length > longestPath || path.startsWith('-') || /\p{Cc}/u.test(path)) return false;
  return path.split('/').every((part) => part !== '' && part !== '.' && part !== '..');
}

async function linkedCommits(session: Session, sha: string, paths: readonly string[]): Promise<Map<string, string>> {
  const listed = expectSuccess('listing submodules', await session.git(['ls-tree', '-z', sha, '--', ...paths]));
  const commits = new Map<string, string>();
  for (const entry of listed.stdout.toString().split('\0')) {
    const tab = entry.indexOf('\t');
    const [mode, type, commit = ''] = entry.slice(0, tab).split(' ');
    if (mode === '160000' && type === 'commit') commits.set(entry.slice(tab + 1), commit);
  }
  return commits;
}
