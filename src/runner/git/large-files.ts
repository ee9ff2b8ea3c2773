import { lstat, mkdir } from 'node:fs/promises';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseGitAddress, type GitAddress } from '../../shared/domain/git-address.ts';
import { FetchError } from './failures.ts';
import { expectSuccess, git, writeFiles } from './git.ts';
import { largeFilesUrl } from './large-file-calls.ts';
import { deleteFiles } from './mirror.ts';
import { connected, credentialOf, mirrorOf, sshRemote, type Source, type GitDeps } from './sources.ts';
import { whyUnavailable, type Unavailable } from './public-failures.ts';
import { setOldTimes } from './old-times.ts';
import type { Session } from './session.ts';
import { trimEnd } from './phrases.ts';
import type { Way } from './channel.ts';
import { sourceFile } from '../../shared/lib/source-files.ts';

/*
 * Git LFS. The session that wrote a work tree finds pointers in it by the repository's attributes. Another session
 * removes them, and git writes them again with git-lfs as its filter. The filter fetches over the project's connection
 * and from public addresses, and checks size and SHA-256. Files are cached beside the mirror. If one cannot be fetched,
 * its pointer stays, and the build's log reports it.
 */

const program = readFileSync(sourceFile('runner/git/large-pointers.pl'), 'utf8');
const mostOfPointers = 8 * 1024 * 1024;
/** The caches, in the mirror's own folder. Forks have a separate cache. */
const [keptForOwn, keptForForks] = ['lfs', 'lfs-public'];

interface Pointer {
  oid: string;
  size: number;
  path: string;
}

export interface Pointers {
  pointers: Pointer[];
  areAll: boolean;
}

/** With `store`, removes the pointers and records their use there. */
export async function findPointers({ directory, run }: Session, store?: string): Promise<Pointers> {
  const list = [...git, '--git-dir=.git', '--work-tree=.', 'ls-files', '-z', '--', ':(attr:filter=lfs)'];
  const script =
    'cd "$1" && program=$2 store=$3 && shift 3 && ("$@" || echo failed >&2) | perl -e "$program" -- $store';
  const command = ['sh', '-c', script, 'sh', directory, program, store ?? '', ...list];
  const { stdout, stderr, status, truncated } = await run(command, { maxOutput: mostOfPointers });
  const lines = stdout.toString('latin1').split('\0').slice(0, -1);
  const pointers = lines.flatMap((line) => {
    const [, oid = '', size = '', path = ''] = /^([0-9a-f]{64}) (\d{1,15}) ([^]+)$/.exec(line) ?? [];
    return oid === '' ? [] : [{ oid, size: Number(size), path }];
  });
  return { pointers, areAll: status === 0 && stderr.length === 0 && !truncated };
}

export interface PointedTree {
  source: Source;
  tree: string;
  sha: string;
  pointers: readonly Pointer[];
}

export interface Miss {
  sentence: string;
  isLasting: boolean;
}

export async function bringLargeFiles(deps: GitDeps, pointed: PointedTree): Promise<Miss | undefined> {
  const { source, pointers } = pointed;
  const { address, narrator } = source;
  const miss = (missing: readonly Pointer[], unavailable: Unavailable): Miss => ({
    sentence: sentenceOf(missing, unavailable.why, source),
    isLasting: unavailable.isLasting,
  });
  const wanted = new Map(pointers.map((pointer) => [pointer.oid, pointer]));
  const bytes = Array.from(wanted.values()).reduce((sum, { size }) => sum + size, 0);
  if (bytes > deps.checkoutBytes)
    return miss(pointers, { why: 'they exceed the checkout limit (HEADRACE_CHECKOUT_SIZE)', isLasting: true });
  // A fork gets no file that the project's key fetched: with a known hash, it could read files of other branches.
  const store = join(mirrorOf(deps, source).folder, source.isFork ? keptForForks : keptForOwn);
  await mkdir(store, { recursive: true, mode: 0o700 });
  const isKept = await Promise.all(Array.from(wanted.values(), (pointer) => isIn(store, pointer)));
  const missing = isKept.filter((is) => !is).length;
  const fill = async (url: string, way?: Way): Promise<Miss | undefined> => {
    const { left, why } = await writeAgain(deps, pointed, store, url, way);
    return left.length === 0 ? undefined : miss(left, why);
  };
  if (missing === 0) return fill(address.url);
  narrator.line(`Fetching ${missing} files of Git LFS.`);
  const https = { bytes: deps.checkoutBytes };
  if (source.isFork || address.scheme === 'https') {
    const url = publicLfsUrl(address);
    const credential = source.isFork ? undefined : await credentialOf(source);
    if (url !== undefined && credential !== undefined)
      return fill(largeFilesUrl, { https: { ...https, largeFiles: { ...credential, url } } });
    if (url !== undefined) return fill(url, { https });
    return miss(pointers, { why: `no https address can be derived from ${address.url}`, isLasting: true });
  }
  try {
    return await connected(deps, source, (ssh, known) => {
      const { services: commands } = sshRemote(deps, known, ssh).way('git-lfs-transfer', 'git-lfs-authenticate');
      return fill(address.url, { ...(commands && { services: commands }), https });
    });
  } catch (error) {
    if (!(error instanceof FetchError) || error.kind === 'disk_full') throw error;
    // Only these files could not be fetched. The commit itself was.
    return miss(pointers, { why: trimEnd(error.message, '.'), isLasting: false });
  }
}

/** The public address of large files follows from the repository's address, as in git-lfs. */
export function publicLfsUrl({ scheme, url: own, host, path }: GitAddress): string | undefined {
  const url =
    scheme === 'https'
      ? own
      : parseGitAddress(`https://${host.includes(':') ? `[${host}]` : host}/${path.replace(/^\/+/, '')}`)?.url;
  return url === undefined ? undefined : `${url.replace(/\/*(\.git)?\/*$/, '.git')}/info/lfs`;
}

const placeIn = (store: string, oid: string): string => join(store, 'objects', oid.slice(0, 2), oid.slice(2, 4), oid);

async function isIn(store: string, { oid, size }: Pointer): Promise<boolean> {
  const found = await lstat(placeIn(store, oid)).catch(() => undefined);
  return found?.size === size;
}

/** The session may always write files up to this size, because git also writes files of its own. */
const usualFile = 256 * 1024 * 1024;

/** Returns the pointers that remain. */
async function writeAgain(
  { sessions, longestSilenceMs }: GitDeps,
  { source, tree, sha, pointers }: PointedTree,
  store: string,
  url: string,
  way?: Way,
): Promise<{ left: Pointer[]; why: Unavailable }> {
  const { signal } = source;
  // A limit, because a host may send more than the pointer specifies.
  const largestFile = Math.max(...pointers.map(({ size }) => size), usualFile);
  return sessions.use({ directory: tree, store, access: 'write', largestFile, signal, way }, async (session) => {
    const settings = lfsSettings(url, session.store);
    await findPointers(session, session.store);
    const filtered = await session.gitInTree(writeFiles(sha), { settings, longestSilenceMs });
    if (filtered.status !== 0) expectSuccess('writing large files', await session.gitInTree(writeFiles(sha)));
    await setOldTimes(session, settings);
    await session.run(['rm', '-rf', '--', join(session.directory, '.git', 'lfs'), join(session.store, 'logs')]);
    const output = `${filtered.stderr.toString()}\n${filtered.ssh.toString()}`;
    const left = (await findPointers(session)).pointers;
    const hasNone = way?.services !== undefined && left.length === pointers.length;
    const other = hasNone ? `the host ${source.address.host} has no Git LFS over SSH` : 'its host refuses to send it';
    return { left, why: whyUnavailable(output, filtered.troubles, undefined, { why: other, isLasting: true }) };
  });
}

/** For the command line, which overrides the repository's `.lfsconfig`. That file could redirect or skip files. */
function lfsSettings(url: string, store: string): string[] {
  const settings = {
    'filter.lfs.process': 'git-lfs filter-process',
    'filter.lfs.required': 'false',
    'lfs.url': url,
    'lfs.storage': store,
    'lfs.fetchinclude': '',
    'lfs.fetchexclude': '',
    'lfs.skipdownloaderrors': 'true',
    'lfs.ssh.automultiplex': 'false',
    'lfs.transfer.maxretries': '1',
  };
  return Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
}

function sentenceOf([first, ...more]: readonly Pointer[], why: string, { isFork }: Source): string {
  const path = Buffer.from(first?.path ?? '', 'latin1')
    .toString()
    .replaceAll(/\p{Cc}/gu, '?')
    .slice(0, 200);
  const which =
    more.length === 0
      ? `The file ${path} of Git LFS was`
      : `${more.length + 1} files of Git LFS, such as ${path}, were`;
  const how = isFork ? ' For a commit from a fork they are fetched without the credentials of the project.' : '';
  return `${which} not fetched, and the pointer remains in its place: ${why}.${how}`;
}

/** Removes files unused for this long, and interrupted downloads. Follows no link, because sessions write here. */
export async function forgetLargeFiles(mirrorFolder: string, unusedForMs: number): Promise<void> {
  for (const name of [keptForOwn, keptForForks])
    await deleteFiles(join(mirrorFolder, name), ['-mmin', `+${Math.ceil(unusedForMs / 60_000)}`]);
}
