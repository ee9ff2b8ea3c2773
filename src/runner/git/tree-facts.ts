import { readFileSync } from 'node:fs';
import { patternsOf } from '../../shared/domain/globs.ts';
import { sourceFile } from '../../shared/lib/source-files.ts';
import { expectSuccess, GitError } from './git.ts';
import { mergeAgain, withOwnObjects, type WantedMerge } from './merge.ts';
import { obtain, wantedCommit } from './obtain.ts';
import { withRepair } from './repair.ts';
import type { Session } from './session.ts';
import type { GitDeps, SourceRequest } from './sources.ts';
import { withoutLog } from './without-log.ts';

/* Facts about the tree of a commit, from git's objects alone. The mirror fetches the commit if it lacks it. */

export interface TreeRequest extends Omit<SourceRequest, 'writeLog'> {
  sha: string;
  fetchRef?: string;
  merge?: WantedMerge;
}

export interface MatchingRequest extends TreeRequest {
  globs: readonly string[];
}

export interface TreeFacts {
  /** A digest of the files that match: path, mode and object. Submodules count by commit. */
  matching(request: MatchingRequest): Promise<string>;
  /** False only if a work tree of the commit lacks nothing on any runner: it has no submodules and no large files. */
  mayLackParts(request: TreeRequest): Promise<boolean>;
}

/** A commit always has the same tree, so answers last. */
const mostKnown = 10_000;

export function openTreeFacts(deps: GitDeps): TreeFacts {
  const known = new Map<string, unknown>();
  const once = async <T>(request: TreeRequest, about: unknown, look: Look<T>): Promise<T> => {
    const key = JSON.stringify([request.projectId, request.sha, about]);
    if (known.has(key)) return known.get(key) as T;
    const found = await lookInto(deps, request, look);
    for (const oldest of known.keys()) {
      if (known.size < mostKnown) break;
      known.delete(oldest);
    }
    known.set(key, found);
    return found;
  };
  return {
    matching: ({ globs, ...request }) =>
      once(request, globs, (session, sha) => digestOfMatching(session, sha, patternsOf(globs))),
    mayLackParts: (request) => once(request, 'parts', mayLackParts),
  };
}

type Look<T> = (session: Session, sha: string) => Promise<T>;

/** Only the folder of the session itself can be written. The mirror stays as it is. */
const ownFolder = 'merging';

async function lookInto<T>(deps: GitDeps, request: TreeRequest, look: Look<T>): Promise<T> {
  const { sha, merge } = request;
  const wanted = wantedCommit(request);
  return withoutLog({ ...request, timeoutMs: deps.timeoutMs }, (source) =>
    withRepair(deps, source, () =>
      obtain(deps, source, wanted, async (session) => {
        if (!merge) return look(session, sha);
        return withOwnObjects(session, ownFolder, async (own) => {
          await mergeAgain(own, merge, sha);
          return look(own, sha);
        });
      }),
    ),
  );
}

const program = ['match-globs.pl', 'git/matching-files.pl']
  .map((name) => readFileSync(sourceFile(`runner/${name}`), 'utf8'))
  .join('');

/** The program's status. */
const damaged = 3;

async function digestOfMatching(
  { run, gitCommand }: Session,
  sha: string,
  patterns: readonly string[],
): Promise<string> {
  const values = [sha, String(gitCommand.length), ...gitCommand, ...patterns];
  const finished = await run(['perl', '-e', program, '--', ...values]);
  if (finished.status === damaged) throw new GitError('listing files', finished);
  const [digest] = /^[0-9a-f]{64}/.exec(finished.stdout.toString('latin1')) ?? [];
  if (finished.status !== 0 || digest === undefined)
    throw new Error(`files could not be matched: ${finished.stderr.toString().slice(0, 1000)}`);
  return digest;
}

/** git-lfs is a filter that attributes name, and they are only read from these files. */
async function mayLackParts(session: Session, sha: string): Promise<boolean> {
  const declared = await session.git(['ls-tree', '-z', '--full-tree', sha, '--', '.gitmodules']);
  if (expectSuccess('looking for submodules', declared).stdout.length > 0) return true;
  const search = [
    'grep',
    '--quiet',
    '--text',
    '--fixed-strings',
    '-e',
    'lfs',
    sha,
    '--',
    ':(top,glob)**/.gitattributes',
  ];
  const found = await session.git(search);
  if (found.status > 1) throw new GitError('looking for large files', found);
  return found.status === 0;
}
