import { join } from 'node:path';
import { most } from '../../shared/domain/bounds.ts';
import { boundedNames } from '../../shared/domain/commit-bounds.ts';
import type { MadeMerge } from '../../shared/protocol/index.ts';
import { commitAt, findCandidates } from './candidates.ts';
import { readCommitObject } from './commit-object.ts';
import { FetchError } from './failures.ts';
import { expectSuccess, git, GitError, linesOf } from './git.ts';
import { quoted } from './phrases.ts';
import { SilenceError, type RunOptions, type Session } from './session.ts';

/*
 * The merge of a pull request's head into its target branch. It exists on runners only: a fetch makes it in a folder
 * that it removes, and each checkout makes it again in its own repository. So its bytes follow from the two commits and
 * the request alone, and the mirror has only commits of the remote.
 *
 * git merges trees in a bare repository. No drivers, filters, hooks or attributes of the repository apply, and
 * submodules are not opened.
 */

/** Two builds may share a merge only if they have all of it in common. `name` is the request's. */
export interface WantedMerge {
  head: string;
  base: string;
  name: string;
}

export class MergeConflict extends FetchError {
  override name = 'MergeConflict';
  readonly merge: Pick<WantedMerge, 'head' | 'base'>;
  readonly files: readonly string[];

  constructor(merge: Pick<WantedMerge, 'head' | 'base'>, files: readonly string[], message: string) {
    super('merge_conflict', message);
    this.merge = merge;
    this.files = files;
  }
}

/** The time of a merge. Comparing texts is slow for some, and the mirror is locked meanwhile. */
const mostMs = 120_000;

const settings = [
  'core.bare=true',
  // Newer versions of git would read attributes from a commit. This is the empty tree.
  'attr.tree=4b825dc642cb6eb9a060e54bf8d69288fbee4904',
  'merge.renames=true',
  // Comparing all pairs of renamed files grows with their square. Above the limit, only unchanged files count as moved.
  'merge.renameLimit=1000',
  'merge.directoryRenames=conflict',
  'merge.renormalize=false',
].flatMap((setting) => ['-c', setting]);

/** A session on the repository at `gitDir`, bare or not. */
export function inRepository(session: Session, gitDir: string, environment: readonly string[] = []): Session {
  const around = environment.length === 0 ? [] : ['env', ...environment];
  const gitCommand = [...around, ...git, ...settings, `--git-dir=${gitDir}`];
  return { ...session, gitCommand, git: (args, options) => session.run([...gitCommand, ...args], options) };
}

/** Calls `work` with a session that also sees new objects, which are gone afterwards. The session may write the folder. */
export async function withOwnObjects<T>(
  session: Session,
  folder: string,
  work: (session: Session) => Promise<T>,
): Promise<T> {
  const remove = ['rm', '-rf', '--', folder];
  expectSuccess('removing an earlier merge', await session.run(remove)); // its runner died
  expectSuccess('making a folder', await session.run(['mkdir', '--', folder]));
  try {
    return await work(
      inRepository(session, session.directory, [
        `GIT_OBJECT_DIRECTORY=${folder}`,
        `GIT_ALTERNATE_OBJECT_DIRECTORIES=${JSON.stringify(join(session.directory, 'objects'))}`,
      ]),
    );
  } finally {
    await session.run(remove).catch(() => {}); // the session has ended, so the next merge removes it
  }
}

/** The commit of the target branch, as the fetch found it. */
export async function targetOf(session: Session, branch: string): Promise<string> {
  const base = await commitAt(session, `refs/heads/${branch}`);
  if (base !== undefined) return base;
  const message = `The target branch ${quoted(branch)} of the pull request does not exist, so there is nothing to merge into.`;
  throw new FetchError('ref_not_found', message);
}

/** Writes the merge to the session's repository. Throws a MergeConflict. */
export async function mergeIn(session: Session, wanted: WantedMerge): Promise<MadeMerge> {
  const { head, base } = wanted;
  const related = await inTime(session, ['merge-base', base, head]);
  if (related.status === 1) {
    const message = `Commit ${head} cannot be merged into ${base}: their histories have no commit in common.`;
    throw new MergeConflict({ head, base }, [], message);
  }
  expectSuccess('looking for a common commit', related);
  const how = ['merge-tree', '--write-tree', '-z', '--name-only', '--no-messages', '--end-of-options'];
  const merged = await inTime(session, [...how, base, head]);
  if (merged.status === usageError) throw notPossible('Its git is too old: it must be 2.38 or newer.');
  if (merged.status !== 0 && merged.status !== 1 && !merged.truncated) throw new GitError('merging', merged);
  const [tree = '', ...names] = linesOf(merged, '\0', most.namesOfCommit + 1);
  if (merged.status !== 0) throw conflict(wanted, [...new Set(names)]);
  const input = await commitText(session, wanted, tree);
  const written = await session.git(['hash-object', '-t', 'commit', '-w', '--stdin'], { input });
  const sha = expectSuccess('writing the merge', written).stdout.toString().trim();
  return { sha, base, tree };
}

/** For a merge that another runner made first. */
export async function mergeAgain(session: Session, wanted: WantedMerge, sha: string): Promise<void> {
  const made = await mergeIn(session, wanted).catch((error: unknown) => {
    if (error instanceof MergeConflict) return undefined;
    throw error;
  });
  if (made?.sha === sha) return;
  throw notPossible(`It merges commit ${wanted.head} into ${wanted.base} differently from the runner that fetched it.`);
}

/** Of a git that does not know an option. */
const usageError = 129;

function notPossible(why: string): FetchError {
  const help = 'Ask an operator to install the same recent version of git on all runners.';
  return new FetchError('merge_not_possible', `This runner cannot make the merge. ${why} ${help}`);
}

async function inTime(session: Session, args: readonly string[], options: RunOptions = {}) {
  try {
    return await session.git(args, { ...options, longestSilenceMs: mostMs });
  } catch (error) {
    if (!(error instanceof SilenceError)) throw error;
    const message = `Merging took more than ${mostMs / 1000} s, the limit, and was ended. Merge the target branch into the pull request’s own branch by hand.`;
    throw new FetchError('fetch_timed_out', message);
  }
}

/** Lines of the log show this many names. */
const mostShown = 100;

function conflict({ head, base }: WantedMerge, names: readonly string[]): MergeConflict {
  const files = boundedNames(names);
  const more = names.length > mostShown ? ['  and more'] : [];
  const listed = files.slice(0, mostShown).map((name) => `  ${printable(name)}`);
  const lines = [`Commit ${head} cannot be merged into ${base}. These files conflict:`, ...listed, ...more];
  return new MergeConflict({ head, base }, files, lines.join('\n'));
}

/** A name must not look like another line of the log. */
function printable(name: string): string {
  return /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}"\\]/u.test(name)
    ? JSON.stringify(name).replaceAll(
        /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu,
        (one) => `\\u${one.codePointAt(0)?.toString(16).padStart(4, '0')}`,
      )
    : name;
}

/** Nothing in it is from the two commits but their names and the later of their times. */
async function commitText(session: Session, { head, base, name }: WantedMerge, tree: string): Promise<string> {
  const both = await findCandidates(
    session,
    [base, head].map((sha) => ({ kind: 'sha', name: sha })),
  );
  const times = both.map(({ bytes }) => Date.parse(readCommitObject(bytes).committedDate) / 1000);
  const when = `${Math.min(Math.max(0, ...times), latest)} +0000`;
  const who = `Headrace <headrace@localhost> ${when}`;
  const parents = `parent ${base}\nparent ${head}\n`;
  return `tree ${tree}\n${parents}author ${who}\ncommitter ${who}\n\nMerge ${head} into ${base}\n\nHeadrace-Request: ${name}\n`;
}

/** The last second that every git can store. */
const latest = 2 ** 32 - 1;
