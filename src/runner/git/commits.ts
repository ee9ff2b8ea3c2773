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

export async function findCandidates(session: Session, candidates: readonly RefCandidate[]): Promise<Found[]> {
  const input = candidates.map((candidate) => `${candidate.name}^{commit}\n`).join('');
  const finished = await session.git(['cat-file', '--batch'], { input, maxOutput: mostOfCommits });
  if (finished.truncated) {
    const message = `The commit is described in more than ${mostOfCommits / 1024 ** 2} MB, which is no description.`;
    throw new FetchError('malformed_repository', message);
  }
  const found: Found[] = [];
  let at = 0;
  for (const candidate of candidates) {
    const lineEnd = finished.stdout.indexOf(10, at);
    if (lineEnd < 0) throw new GitError('reading a commit', finished);
    const [sha = '', type, size] = finished.stdout.subarray(at, lineEnd).toString().split(' ');
    at = lineEnd + 1;
    if (type !== 'commit') continue; // a missing or ambiguous object has an answer of one line
    found.push({ candidate, sha, bytes: finished.stdout.subarray(at, at + Number(size)) });
    at += Number(size) + 1;
  }
  return found;
}

/** Whether a short SHA was not found only because it is too short. */
export async function isAmbiguous(session: Session, candidates: readonly RefCandidate[]): Promise<boolean> {
  for (const { name } of candidates.filter((candidate) => candidate.kind === 'sha')) {
    const fitting = await session.git(['rev-parse', `--disambiguate=${name}`]);
    if (fitting.stdout.toString().trim().split('\n').length > 1) return true;
  }
  return false;
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
