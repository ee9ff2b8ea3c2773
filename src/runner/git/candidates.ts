import { FetchError } from './failures.ts';
import { GitError, linesOf } from './git.ts';
import { tipsOf } from './known-refs.ts';
import { quoted } from './phrases.ts';
import type { RefCandidate, WantedRef } from './refs.ts';
import type { Session } from './session.ts';

export interface FoundCommit {
  candidate: RefCandidate;
  sha: string;
  bytes: Buffer;
}

const mostOfCommits = 16 * 1024 * 1024;

/**
 * Looks up all candidates. git gets full SHAs instead of names, because it also takes a name for the end of a longer
 * one. If there is no branch `main`, `refs/heads/main` would lead to `refs/heads/refs/heads/main`, a branch that anyone
 * may push.
 */
export async function findCandidates(session: Session, candidates: readonly RefCandidate[]): Promise<FoundCommit[]> {
  const named = await shasOf(session, candidates);
  if (named.length === 0) return [];
  const input = named.map(({ sha }) => `${sha}^{commit}\n`).join('');
  const finished = await session.git(['cat-file', '--batch'], { input, maxOutput: mostOfCommits });
  if (finished.truncated) {
    const message = `The metadata of the commit exceeds ${mostOfCommits / 1024 ** 2} MB.`;
    throw new FetchError('malformed_repository', message);
  }
  const found: FoundCommit[] = [];
  let at = 0;
  for (const { candidate } of named) {
    const lineEnd = finished.stdout.indexOf(10, at);
    if (lineEnd < 0) throw new GitError('reading a commit', finished);
    const [sha = '', type, size] = finished.stdout.subarray(at, lineEnd).toString().split(' ');
    at = lineEnd + 1;
    if (type !== 'commit') continue; // for a missing object, git prints only this line
    const bytes = finished.stdout.subarray(at, at + Number(size));
    at += Number(size) + 1;
    if (!found.some((one) => one.candidate === candidate && one.sha === sha)) found.push({ candidate, sha, bytes });
  }
  return found;
}

/** The commit that a ref leads to. `ref` is its full name. */
export async function commitAt(session: Session, ref: string): Promise<string | undefined> {
  const [found] = await findCandidates(session, [{ kind: 'other', name: ref }]);
  return found?.sha;
}

interface Named {
  candidate: RefCandidate;
  /** The SHA of an object. `findCandidates` skips an object that leads to no commit. */
  sha: string;
}

/** A short SHA may match several objects. */
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

/** Names take precedence over short SHAs, as in git. A name or short SHA of two different commits is ambiguous. */
export function choose(wanted: WantedRef, found: readonly FoundCommit[]): FoundCommit | undefined {
  const [first, second] = found.filter(({ candidate }) => candidate.kind !== 'sha');
  if (first !== undefined && second !== undefined && first.sha !== second.sha) {
    throw new FetchError(
      'ambiguous_ref',
      `${quoted(wanted.asked)} is a branch and also a tag, of different commits. ` +
        `Request ${second.candidate.name} or ${first.candidate.name} instead.`,
    );
  }
  if (first === undefined && found.length > 1) {
    throw new FetchError(
      'ambiguous_ref',
      `Several commits start with ${quoted(wanted.asked)}. Use a longer prefix of the SHA.`,
    );
  }
  return first ?? found[0];
}
