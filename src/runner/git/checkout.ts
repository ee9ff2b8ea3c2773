import { mkdir, rename } from 'node:fs/promises';
import { readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { pathExists } from '../../shared/lib/path-exists.ts';
import { removeTree } from '../../shared/lib/remove-tree.ts';
import { watchSize, type SizeWatch } from '../size-watch.ts';
import { FetchError, recognize } from './failures.ts';
import { GitError, writeFiles } from './git.ts';
import { makeGitDir, packedRefs } from './git-folder.ts';
import { bringLargeFiles, findPointers, type PointedTree } from './large-files.ts';
import { inRepository, mergeAgain, type WantedMerge } from './merge.ts';
import { obtain, wantedCommit } from './obtain.ts';
import { namedBy, reason, type Source, type SourceRequest, type GitDeps } from './sources.ts';
import { oldTime, setOldTimes } from './old-times.ts';
import { withRepair } from './repair.ts';
import { seal } from './seal.ts';
import { submodulesOf, type Submodule } from './submodules.ts';
import { withLog } from './with-log.ts';
import { sourceFile } from '../../shared/lib/source-files.ts';

/*
 * A work tree with a complete `.git` and no path to the outside, so git works wherever the folder is mounted.
 *
 * Packs are clones of the mirror's packs, or else hard links to them, or else copies. A build runs as the owner of the
 * links. So it must see the tree through an overlay or a copy, or it could change the mirror.
 *
 * A fork's `.git` has only what its commit reaches: the mirror also has other branches, other forks, and overwritten
 * commits that must stay hidden.
 *
 * A sealed `.git` has no history at all (seal.ts).
 *
 * git writes the files in a session that sees only the new tree. No filter, hook or other program is configured. A last
 * session moves submodules into place. It checks each place, because a repository can put anything there.
 */

export interface CheckoutRequest extends SourceRequest {
  sha: string;
  /** The full name of the ref that reaches it, if no branch or tag does. */
  fetchRef?: string;
  /** The commits that `sha` is the merge of. Then no repository has it. */
  merge?: WantedMerge;
  isSealed?: boolean;
  /** The folder to make. It appears complete or not at all. */
  into: string;
}

/** Includes nested submodules. A repository can name itself, and more submodules than fit on a disk. */
const mostSubmodules = 100;

interface Making {
  folder: string;
  trees: number;
  size: SizeWatch;
  submodulesLeft: number;
  /** Inner submodules come before outer ones. */
  placements: { from: string; tree: string; path: string }[];
  pointed: PointedTree[];
  misses: Misses;
  /** Hosts that did not respond, to spare other requests the wait. */
  silentHosts: Set<string>;
}

export interface Misses {
  sentences: string[];
  /** Whether a new work tree would lack the same parts. */
  areLasting: boolean;
}

export async function checkout(deps: GitDeps, request: CheckoutRequest): Promise<Misses> {
  const part = `${request.into}.part`;
  return withLog(deps, request, async (logged) => {
    const size = watchSize(part, deps.checkoutBytes, tooLarge(deps.checkoutBytes));
    try {
      const source = { ...logged, signal: AbortSignal.any([logged.signal, size.signal]) };
      const making: Making = {
        folder: join(part, 'trees'),
        trees: 0,
        size,
        submodulesLeft: mostSubmodules,
        placements: [],
        pointed: [],
        misses: { sentences: [], areLasting: true },
        silentHosts: new Set(),
      };
      await removeTree(part);
      await mkdir(making.folder, { recursive: true, mode: 0o711 });
      const tree = await makeTree(deps, source, request, making);
      await placeAll(deps, source, making);
      await size.check();
      // If git was misled while it saw all trees, the result may not be a directory.
      if (!(await pathExists(tree, 'directory'))) throw new Error('the work tree is not a directory');
      await rename(tree, request.into);
      return making.misses;
    } finally {
      size.close();
      await removeTree(part);
    }
  });
}

function tooLarge(mostBytes: number): FetchError {
  const message =
    `The files of this commit exceed the checkout limit of ${Math.floor(mostBytes / 1024 ** 2)} MB ` +
    '(HEADRACE_CHECKOUT_SIZE). Reduce the files, or ask an operator to raise the limit.';
  return new FetchError('checkout_too_large', message);
}

type Commit = Pick<CheckoutRequest, 'sha' | 'fetchRef' | 'merge' | 'isSealed'>;

async function makeTree(deps: GitDeps, source: Source, commit: Commit, making: Making): Promise<string> {
  const { tree, submodules } = await withRepair(deps, source, () => makeOne(deps, source, commit, making));
  for (const submodule of submodules) {
    const { path } = submodule;
    if (making.submodulesLeft === 0) {
      leaveOut(making, source, `Submodule ${path} is skipped: there are more than ${mostSubmodules} in total.`);
      continue;
    }
    making.submodulesLeft -= 1;
    const from = await makeSubmodule(deps, source, { ...submodule, isSealed: commit.isSealed ?? false }, making);
    if (from !== undefined) making.placements.push({ from: basename(from), tree: basename(tree), path });
  }
  return tree;
}

/** Undefined if the submodule is not public or its host does not respond over HTTPS. */
async function makeSubmodule(
  deps: GitDeps,
  source: Source,
  { path, commit, address, isSealed }: Submodule & { isSealed: boolean },
  making: Making,
): Promise<string | undefined> {
  source.narrator.line(`Submodule ${path}: ${commit} of ${address.url}.`);
  const isOpen = address.scheme === 'https';
  const leave = (why: string, isLasting: boolean): void => {
    const help =
      isLasting && isOpen && !source.isFork
        ? ' Submodules over https are fetched without credentials. For a private one, use an address like user@host:path.'
        : '';
    leaveOut(making, source, `Submodule ${path} is skipped: ${why} (${address.url}).${help}`, isLasting);
  };
  if (isOpen && making.silentHosts.has(address.host)) {
    leave('its host does not answer', false);
    return undefined;
  }
  try {
    return await makeTree(deps, namedBy(source, address), { sha: commit, isSealed }, making);
  } catch (error) {
    if (!(error instanceof FetchError)) throw error;
    if (error.kind !== 'not_public' && !(isOpen && error.kind === 'host_unreachable')) throw error;
    if (error.kind === 'host_unreachable') making.silentHosts.add(address.host);
    leave(error.message, error.kind === 'not_public');
    return undefined;
  }
}

function leaveOut({ misses }: Making, { narrator }: Source, sentence: string, isLasting = true): void {
  misses.sentences.push(sentence);
  misses.areLasting &&= isLasting;
  narrator.line(sentence);
}

async function makeOne(
  deps: GitDeps,
  source: Source,
  commit: Commit,
  making: Making,
): Promise<{ tree: string; submodules: Submodule[] }> {
  const { sha, merge, isSealed = false } = commit;
  const leftOut: string[] = []; // reported once, also if this runs again with a repaired mirror
  const refs = await obtain(deps, source, wantedCommit(commit), async (session) =>
    isSealed ? undefined : packedRefs(session, source, merge ? [merge.base, merge.head] : [sha]),
  );
  const tree = join(making.folder, String(making.trees++));
  const packs = await makeGitDir(deps, source, tree, { sha, refs });
  await making.size.discount(packs);
  const { head, pointers, areAll, submodules } = await fillTree(deps, source, commit, tree, (sentence) => {
    leftOut.push(sentence);
  });
  if (!areAll)
    leftOut.push('Not all files were checked for Git LFS pointers: some may remain in place of their files.');
  if (pointers.length > 0) making.pointed.push({ source, tree, sha: head, pointers });
  for (const sentence of leftOut) leaveOut(making, source, sentence);
  return { tree, submodules };
}

/** Packs everything that HEAD and the tags reach, without compressing it again. Removes the other packs. */
const repack = ['repack', '-a', '-d', '-n', '--quiet', '--window=0'];

async function fillTree(
  { sessions }: GitDeps,
  source: Source,
  { sha, merge, isSealed = false }: Commit,
  tree: string,
  leaveOut: (sentence: string) => void,
) {
  const request = { directory: tree, access: 'write', signal: source.signal } as const;
  return sessions.use(request, async (session) => {
    const repository = inRepository(session, join(session.directory, '.git'));
    if (merge) await mergeAgain(repository, merge, sha);
    const submodules = await submodulesOf(repository, source, sha, leaveOut);
    const head = isSealed ? await seal(session, repository, { sha, isSubmodule: source.isNamed }) : sha;
    for (const step of [...(source.isFork && !isSealed ? [repack] : []), writeFiles(head)]) {
      const finished = await session.gitInTree(step);
      if (finished.status === 0) continue;
      const error = new GitError('writing the work tree', finished);
      if (recognize(finished.stderr) !== 'malformed_repository') throw error;
      source.narrator.line(error.output);
      throw reason(source, 'malformed_repository');
    }
    await setOldTimes(session);
    return { ...(await findPointers(session)), head, submodules };
  });
}

const placeProgram = readFileSync(sourceFile('runner/git/place.pl'), 'utf8');

async function placeAll(deps: GitDeps, source: Source, making: Making): Promise<void> {
  for (const pointed of making.pointed) {
    const miss = await bringLargeFiles(deps, pointed);
    if (miss !== undefined) leaveOut(making, source, miss.sentence, miss.isLasting);
  }
  if (making.placements.length === 0) return;
  const request = { directory: making.folder, access: 'write', signal: source.signal } as const;
  await deps.sessions.use(request, async ({ directory, run }) => {
    for (const { from, tree, path } of making.placements) {
      const places = [join(directory, from), join(directory, tree), path, `${oldTime}`];
      const { status, stderr } = await run(['perl', '-e', placeProgram, '--', ...places]);
      if (status === 1) leaveOut(making, source, `Submodule ${path} is skipped: its path is not an empty directory.`);
      else if (status !== 0) throw new Error(`a submodule could not be moved into its place: ${stderr.toString()}`);
    }
  });
}
