import { join } from 'node:path';
import type { Changes, Comparison, ConfigFile, DefaultHeadChange, MadeMerge } from '../../shared/protocol/index.ts';
import { changesOf } from './changes.ts';
import { readConfigFile } from './config-file.ts';
import { commitAt, type FoundCommit } from './candidates.ts';
import { descends, describe, type KnownCommit } from './commits.ts';
import { FetchError } from './failures.ts';
import { mergeIn, targetOf, withOwnObjects } from './merge.ts';
import type { LogWriter } from './narrator.ts';
import { obtain } from './obtain.ts';
import { quoted } from './phrases.ts';
import { isBranchOrTag, parseCommitRef, remoteHead, type RefKind, type WantedRef } from './refs.ts';
import { withRepair } from './repair.ts';
import type { Session } from './session.ts';
import type { GitDeps, SourceRequest } from './sources.ts';
import { withLog } from './with-log.ts';

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
  /** The branch to merge it into. `name` makes it the merge of one request. */
  merge?: { into: string; name: string };
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
  merge?: MadeMerge;
}

export async function fetch(deps: GitDeps, request: FetchRequest): Promise<FetchedCommit> {
  request.signal.throwIfAborted();
  return withLog(deps, request, async (source) => {
    const { commitRef, fetchRef } = request;
    const wanted = parseCommitRef(commitRef, fetchRef);
    if (wanted === undefined)
      throw new FetchError('invalid_ref', `${quoted(commitRef)} cannot be the name of a branch, a tag or a commit.`);
    source.narrator.line(`Looking for ${wanted.asked} in ${source.address.url}.`);
    const now = { ...wanted, ...(request.merge && { isFresh: true }) };
    const fetched = await withRepair(deps, source, () =>
      obtain(deps, source, now, (session, found) => read(session, found, now, request)),
    );
    tell(source.narrator, fetched, fetchRef || commitRef);
    return fetched;
  });
}

async function read(
  session: Session,
  found: FoundCommit,
  wanted: WantedRef,
  { previous = {}, defaultHead = null, configFile, compare = { asked: true }, merge: into }: FetchRequest,
): Promise<FetchedCommit> {
  const known = await describe(session, found);
  const { likelyBranch, onDefault: _, ...commit } = known;
  const { sha } = commit;
  const { kind: refKind } = found.candidate;
  const ref = wanted.special ?? (await endingIn(session, wanted.by, sha)) ?? fullName(found, known);
  const ofBranch = ref?.startsWith('refs/heads/') ? ref.slice('refs/heads/'.length) : null;
  const likely = refKind === 'sha' ? likelyBranch.bySha : likelyBranch.byName;
  const before = ref === null ? undefined : previous[ref];
  const isFork = commit.branches.length + commit.tags.length === 0;
  const path = isFork ? undefined : configFile;
  const readConfig = async (from: Session, at: string) =>
    path === undefined ? undefined : readConfigFile(from, at, path);
  const merged = into && (await withMerge(session, sha, into, readConfig));
  const config = merged ? merged.result : await readConfig(session, sha);
  const changes = await changesOf(session, known, compare, ofBranch);
  return {
    ...commit,
    refKind,
    ref,
    branch: refKind === 'branch' && ofBranch !== null ? ofBranch : likely,
    overwritten: before !== undefined && !(await descends(session, sha, before)),
    defaultHead: await compareDefaultHead(session, known, defaultHead),
    ...(config && { config }),
    ...(changes && { changes }),
    ...(merged && { merge: merged.merge }),
  };
}

async function withMerge<T>(
  session: Session,
  head: string,
  { into, name }: NonNullable<FetchRequest['merge']>,
  work: (session: Session, sha: string) => Promise<T>,
): Promise<{ merge: MadeMerge; result: T }> {
  const base = await targetOf(session, into);
  return withOwnObjects(session, join(session.directory, 'merging'), async (own) => {
    const merge = await mergeIn(own, { head, base, name });
    return { merge, result: await work(own, merge.sha) };
  });
}

async function endingIn(session: Session, by: string | undefined, sha: string): Promise<string | undefined> {
  return by !== undefined && isBranchOrTag(by) && (await commitAt(session, by)) === sha ? by : undefined;
}

/** A commit of the default branch replaces the last built one if it is newer, or if the branch was overwritten. */
async function compareDefaultHead(
  session: Session,
  { sha, onDefault }: KnownCommit,
  before: string | null,
): Promise<DefaultHeadChange> {
  if (before === null || before === sha) return onDefault ? 'this' : 'none';
  const tip = await commitAt(session, remoteHead);
  const isKept = tip !== undefined && (await descends(session, tip, before));
  if (!onDefault) return isKept ? 'kept' : 'none';
  return isKept && !(await descends(session, sha, before)) ? 'kept' : 'this';
}

function fullName(found: FoundCommit, commit: KnownCommit): string | null {
  if (found.candidate.kind === 'sha') return null;
  if (found.candidate.name !== remoteHead) return found.candidate.name;
  const { byName } = commit.likelyBranch;
  return byName === null ? null : `refs/heads/${byName}`;
}

function tell({ line }: LogWriter, { sha, message, files, ...fetched }: FetchedCommit, asked: string): void {
  const { changes, filesTruncated, overwritten, merge } = fetched;
  line(`Found commit ${sha}: ${message.split('\n', 1)[0] ?? ''}`);
  if (merge) line(`Merged it into ${merge.base}, as commit ${merge.sha}.`);
  if (changes)
    line(`Comparing its files with ${changes.comparedWith}${changes.base === null ? '' : ` (${changes.base})`}.`);
  if (filesTruncated) line(`It changes more files than Headrace records for rules (${files.length}).`);
  if (overwritten) line(`The history of ${quoted(asked)} was overwritten since it was last built.`);
}
