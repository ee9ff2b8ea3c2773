import type { Changes, Comparison, ConfigFile, DefaultHeadChange } from '../../shared/protocol/index.ts';
import { changesOf } from './changes.ts';
import { readConfigFile } from './config-file.ts';
import { descends, describe, findCandidates, type Found, type KnownCommit } from './commits.ts';
import { FetchError } from './failures.ts';
import { inTime, obtain, quoted, reportingTrouble, withRepair } from './obtain.ts';
import { sourceOf, type Source, type SourceRequest, type GitServices } from './sources.ts';
import { isBranchOrTag, parseCommitRef, remoteHead, type RefKind } from './refs.ts';
import type { Session } from './session.ts';

export interface FetchRequest extends SourceRequest {
  /** A branch, a tag, a full or short SHA, `HEAD`, or any ref by its full name. */
  commitRef: string;
  /** The full name of the ref that came with `commitRef`, if that is a SHA. */
  fetchRef?: string;
  /** The commits at which refs were last built, by full name such as `refs/heads/main`. */
  previous?: Readonly<Record<string, string>>;
  /** The newest commit of the default branch that was built so far. */
  defaultHead?: string | null;
  configFile?: string;
  compare?: Comparison;
}

export interface FetchedCommit extends Omit<KnownCommit, 'likelyBranch' | 'onDefault'> {
  refKind: RefKind;
  /** The full name of the requested branch, tag or other ref; null for a SHA. */
  ref: string | null;
  /** For a tag or a SHA, the branch that it was most likely built for. */
  branch: string | null;
  /** The ref was built before at a commit that is not in this one's history. */
  overwritten: boolean;
  defaultHead: DefaultHeadChange;
  config?: ConfigFile;
  changes?: Changes;
}

export async function fetch(services: GitServices, request: FetchRequest): Promise<FetchedCommit> {
  const { signal } = request;
  signal.throwIfAborted();
  return reportingTrouble(request.writeLog, (writeLog) =>
    inTime(services, signal, (inTimeOnly) => find(services, { ...request, writeLog, signal: inTimeOnly })),
  );
}

async function find(services: GitServices, request: FetchRequest): Promise<FetchedCommit> {
  const source = sourceOf(request);
  const wanted = parseCommitRef(request.commitRef, request.fetchRef);
  if (wanted === undefined) {
    const message = `${quoted(request.commitRef)} cannot be the name of a branch, a tag or a commit.`;
    throw new FetchError('invalid_ref', message);
  }
  const { compare = { asked: true }, configFile } = request;
  source.narrator.line(`Looking for ${wanted.asked} in ${source.address.url}.`);
  return withRepair(services, source, () =>
    obtain(services, source, wanted, async (session, found) => {
      const commit = await describe(session, found);
      const ref = wanted.special ?? (await endingIn(session, wanted.by, commit.sha)) ?? fullName(found, commit);
      const overwritten = await isOverwritten(session, commit.sha, ref === null ? undefined : request.previous?.[ref]);
      const defaultHead = await compareDefaultHead(session, commit, request.defaultHead ?? null);
      const isFork = commit.branches.length + commit.tags.length === 0;
      const config =
        configFile === undefined || isFork ? undefined : await readConfigFile(session, commit.sha, configFile);
      const changes = await changesOf(session, commit, compare, ref?.startsWith('refs/heads/') ? ref.slice(11) : null);
      const about = { ref, commit, overwritten, defaultHead, config, changes };
      return finish(source, request, { refKind: found.candidate.kind, ...about });
    }),
  );
}

async function endingIn(session: Session, by: string | undefined, sha: string): Promise<string | undefined> {
  if (by === undefined || !isBranchOrTag(by)) return undefined;
  const [tip] = await findCandidates(session, [{ kind: 'other', name: by }]);
  return tip?.sha === sha ? by : undefined;
}

async function isOverwritten(session: Session, sha: string, before: string | undefined): Promise<boolean> {
  return before !== undefined && !(await descends(session, sha, before));
}

/** A commit of the default branch replaces the last built one if it is newer, or if the branch was overwritten. */
async function compareDefaultHead(
  session: Session,
  { sha, onDefault }: KnownCommit,
  before: string | null,
): Promise<DefaultHeadChange> {
  if (before === null || before === sha) return onDefault ? 'this' : 'none';
  const [tip] = await findCandidates(session, [{ kind: 'branch', name: remoteHead }]);
  const isKept = tip !== undefined && (await descends(session, tip.sha, before));
  if (!onDefault) return isKept ? 'kept' : 'none';
  return isKept && !(await descends(session, sha, before)) ? 'kept' : 'this';
}

function fullName(found: Found, commit: KnownCommit): string | null {
  if (found.candidate.kind === 'sha') return null;
  if (found.candidate.name !== remoteHead) return found.candidate.name;
  const { byName } = commit.likelyBranch;
  return byName === null ? null : `refs/heads/${byName}`;
}

interface Finding {
  refKind: RefKind;
  ref: string | null;
  commit: KnownCommit;
  overwritten: boolean;
  defaultHead: DefaultHeadChange;
  config?: ConfigFile | undefined;
  changes?: Changes | undefined;
}

function finish({ narrator }: Source, request: FetchRequest, finding: Finding): FetchedCommit {
  const { refKind, ref, commit, overwritten, defaultHead, config, changes } = finding;
  const { likelyBranch, onDefault: _, ...known } = commit;
  const likely = refKind === 'sha' ? likelyBranch.bySha : likelyBranch.byName;
  const branch = refKind === 'branch' && ref !== null ? ref.replace('refs/heads/', '') : likely;
  narrator.line(`Found commit ${commit.sha}: ${commit.message.split('\n', 1)[0] ?? ''}`);
  if (changes)
    narrator.line(
      `Its files are compared with ${changes.comparedWith}${changes.base === null ? '' : ` (${changes.base})`}.`,
    );
  if (commit.filesTruncated)
    narrator.line(`It changes more files than are recorded for rules (${commit.files.length}).`);
  if (overwritten)
    narrator.line(
      `The history of ${quoted(request.fetchRef || request.commitRef)} was overwritten since it was last built.`,
    );
  return {
    ...known,
    refKind,
    ref,
    branch,
    overwritten,
    defaultHead,
    ...(config && { config }),
    ...(changes && { changes }),
  };
}
