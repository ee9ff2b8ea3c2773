import { FetchError } from './failures.ts';
import { expectSuccess, GitError, type GitOutput } from './git.ts';
import { most } from '../../shared/domain/bounds.ts';
import { boundedNames } from '../../shared/domain/commit-bounds.ts';
import type { CommitMetadata } from '../../shared/protocol/index.ts';
import { readCommitObject } from './commit-object.ts';
import { remoteHead, type RefCandidate } from './refs.ts';
import type { Session } from './session.ts';

export interface KnownCommit extends CommitMetadata {
  sha: string;
  branches: string[];
  tags: string[];
  /** Paths changed against the first parent, or against nothing. */
  files: string[];
  filesTruncated: boolean;
  /** The branch that it was most likely built for, by how it was requested; null if no branch contains it. */
  likelyBranch: { bySha: string | null; byName: string | null };
  /** Whether the default branch contains it. */
  onDefault: boolean;
  defaultBranch: string | null;
}

export interface Found {
  candidate: RefCandidate;
  sha: string;
  bytes: Buffer;
}

const mostOfCommits = 16 * 1024 * 1024;

/**
 * Looks up all candidates. git gets their full SHAs, and no names: it also takes a name for part of another one. Where
 * there is no branch `main`, `refs/heads/main` would be the branch `refs/heads/main`, which anyone may push.
 */
export async function findCandidates(session: Session, candidates: readonly RefCandidate[]): Promise<Found[]> {
  const named = await shasOf(session, candidates);
  if (named.length === 0) return [];
  const input = named.map(({ sha }) => `${sha}^{commit}\n`).join('');
  const finished = await session.git(['cat-file', '--batch'], { input, maxOutput: mostOfCommits });
  if (finished.truncated) {
    const message = `The commit is described in more than ${mostOfCommits / 1024 ** 2} MB, which is no description.`;
    throw new FetchError('malformed_repository', message);
  }
  const found: Found[] = [];
  let at = 0;
  for (const { candidate } of named) {
    const lineEnd = finished.stdout.indexOf(10, at);
    if (lineEnd < 0) throw new GitError('reading a commit', finished);
    const [sha = '', type, size] = finished.stdout.subarray(at, lineEnd).toString().split(' ');
    at = lineEnd + 1;
    if (type !== 'commit') continue; // a missing object has an answer of one line
    const bytes = finished.stdout.subarray(at, at + Number(size));
    at += Number(size) + 1;
    if (!found.some((one) => one.candidate === candidate && one.sha === sha)) found.push({ candidate, sha, bytes });
  }
  return found;
}

interface Named {
  candidate: RefCandidate;
  /** Of an object, which is a commit, or a tag that leads to one. */
  sha: string;
}

/** A short SHA may stand for several objects. */
async function shasOf(session: Session, candidates: readonly RefCandidate[]): Promise<Named[]> {
  const refs = await tipsOf(
    session,
    candidates.flatMap(({ kind, name }) => (kind === 'sha' ? [] : [name])),
  );
  const named: Named[] = [];
  for (const candidate of candidates) {
    const { kind, name } = candidate;
    const tip = refs.get(name);
    const shas =
      kind !== 'sha' ? (tip === undefined ? [] : [tip]) : isFullSha(name) ? [name] : await shasFrom(session, name);
    named.push(...shas.map((sha) => ({ candidate, sha })));
  }
  return named;
}

const isFullSha = (text: string): boolean => /^[0-9a-f]{40}$/.test(text);

/** Enough to see that a short SHA is too short. */
const mostFitting = 100;

async function shasFrom(session: Session, digits: string): Promise<string[]> {
  const fitting = await session.git(['rev-parse', `--disambiguate=${digits}`]);
  return linesOf(fitting, '\n', mostFitting);
}

/** The objects that refs point to, by the full names of the refs. */
export async function tipsOf(session: Session, names: readonly string[]): Promise<ReadonlyMap<string, string>> {
  if (names.length === 0) return new Map();
  const listing = await session.git(['for-each-ref', '--format=%(objectname) %(refname)', ...names]);
  const tips = new Map<string, string>();
  // A pattern is also matched by what lies below it.
  for (const line of linesOf(wholeOrCut('looking for refs', listing), '\n')) {
    const [sha = '', name = ''] = line.split(' ');
    if (names.includes(name)) tips.set(name, sha);
  }
  return tips;
}

export async function describe(session: Session, found: Found): Promise<KnownCommit> {
  const containing = await refsContaining(session, found.sha);
  const changed = await changedFiles(session, found.sha);
  return { sha: found.sha, ...readCommitObject(found.bytes), ...containing, ...changed };
}

async function refsContaining(
  session: Session,
  sha: string,
): Promise<Pick<KnownCommit, 'branches' | 'tags' | 'likelyBranch' | 'onDefault' | 'defaultBranch'>> {
  const args = ['for-each-ref', `--contains=${sha}`, '--format=%(HEAD)%(objectname) %(refname)'];
  const finished = wholeOrCut('listing branches', await session.git([...args, 'refs/heads', 'refs/tags', remoteHead]));
  const tips = new Map<string, string>();
  let head: string | undefined;
  for (const line of linesOf(finished, '\n')) {
    const blank = line.indexOf(' ', 1);
    const name = line.slice(blank + 1);
    tips.set(name, line.slice(1, blank));
    if (line.startsWith('*')) head = name.slice('refs/heads/'.length);
  }
  const named = (prefix: string): string[] =>
    Array.from(tips.keys())
      .filter((name) => name.startsWith(prefix))
      .map((name) => name.slice(prefix.length));
  const branches = boundedNames(named('refs/heads/'));
  const likely = (endWeighs: number): string | null =>
    best(branches, (branch) => {
      const ends = tips.get(`refs/heads/${branch}`) === sha ? endWeighs : 0;
      return ends + (branch === head ? 4 : 0) + (branch === 'main' ? 2 : 0) + (branch === 'master' ? 1 : 0);
    });
  return {
    branches,
    tags: boundedNames(named('refs/tags/')),
    // A commit that is requested by its SHA was mostly just pushed, so a branch that ends in it comes first.
    likelyBranch: { bySha: likely(8), byName: likely(0.5) },
    onDefault: tips.has(remoteHead),
    defaultBranch: tips.has(remoteHead) ? (head ?? null) : null,
  };
}

function best(branches: readonly string[], score: (branch: string) => number): string | null {
  return branches.reduce<string | null>(
    (chosen, branch) => (chosen === null || score(branch) > score(chosen) ? branch : chosen),
    null,
  );
}

/** Against another commit or tree, or its first parent. */
export async function changedFiles(
  session: Session,
  sha: string,
  base?: string,
): Promise<Pick<KnownCommit, 'files' | 'filesTruncated'>> {
  const how = ['-r', '-z', '--root', '--diff-merges=first-parent', '--no-commit-id', '--name-only', '--no-renames'];
  const args = ['diff-tree', ...how, '--no-ext-diff', '--no-textconv', ...(base === undefined ? [] : [base]), sha];
  const finished = wholeOrCut('listing files', await session.git(args));
  const names = linesOf(finished, '\0', most.namesOfCommit + 1);
  const files = boundedNames(names);
  return { files, filesTruncated: files.length < names.length || finished.truncated };
}

/** A program with truncated output may end with a failing status. */
function wholeOrCut(what: string, finished: GitOutput): GitOutput {
  return finished.truncated ? finished : expectSuccess(what, finished);
}

/** The text after the last line end is empty or truncated. */
function linesOf({ stdout }: GitOutput, end: string, limit = Infinity): string[] {
  const whole = stdout.subarray(0, stdout.lastIndexOf(end) + 1).toString();
  return whole.split(end, Math.min(limit, 2 ** 32 - 1)).filter(Boolean);
}

/** False if the mirror does not have `ancestor`. */
export async function descends(session: Session, sha: string, ancestor: string): Promise<boolean> {
  if (sha === ancestor) return true;
  const finished = await session.git(['merge-base', '--is-ancestor', ancestor, sha]);
  if (finished.status === 0 || finished.status === 1) return finished.status === 0;
  const present = await session.git(['cat-file', '-e', `${ancestor}^{commit}`]);
  if (present.status === 0) throw new GitError('comparing commits', finished);
  return false;
}
