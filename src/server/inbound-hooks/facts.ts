import type { ErrorCode } from '../../shared/errors.ts';
import { isRefName } from '../../shared/domain/ref-names.ts';
import { madeByPush } from '../lifecycle/request-changes.ts';
import { skipMark } from '../lifecycle/skip-marks.ts';
import type { Hook } from '../../shared/records/trigger.ts';
import type { CommentCommand, ForgeAccount } from '../lifecycle/forge-deeds.ts';
import { textOf } from './json.ts';

/** The same form for all forges. It is stored, and decides what is built. */
export interface Facts {
  /** The forge's name for the event, such as `push` or `repo:push`. */
  event: string;
  action: string;
  /** The forge's user. A commit's author is not used: committers can write any name there. */
  sender: string;
  repository: RepositoryNames;
  changes: Change[];
  /** A new comment on a pull request, if it is a command. */
  comment?: CommentFacts;
  /** The number of refs beyond the limit, which are ignored. */
  unread: number;
  /** Why the payload requests no build, regardless of the settings. Blank if it requests one. */
  idle: string;
}

export interface CommentFacts {
  id: string;
  pullRequest: number;
  author: ForgeAccount;
  command: CommentCommand;
}

export interface RepositoryNames {
  names: string[];
  addresses: string[];
}

type HookEvent = Exclude<Hook['events'][number], 'comment'>;

export interface Change {
  event: HookEvent;
  ref: string;
  /** Blank for the tip of the ref. */
  sha: string;
  /** The branch's earlier SHA, or `none` for a new branch. Blank if the forge does not report it. */
  before: string;
  targetBranch: string;
  pullRequest: number | null;
  fromFork: boolean;
  /** The repository's own branch with this head. Blank for a tag or a fork. */
  headBranch: string;
  /** The reason against a build, regardless of the settings. */
  verdict?: { outcome: 'ignored' | 'skipped'; reason: string };
}

/** The proof is right, but the content makes no sense. */
export class PayloadError extends Error {
  readonly field: string;
  readonly code: ErrorCode;

  constructor(field: string, code: ErrorCode, reason: string) {
    super(reason);
    this.field = field;
    this.code = code;
  }
}

const shas = { full: /^[0-9a-f]{40}$/i, short: /^[0-9a-f]{7,40}$/i };

/** A short SHA only if the forge sends nothing longer. */
export function shaIn(value: unknown, field: string, length: keyof typeof shas = 'full'): string {
  const sha = textOf(value);
  if (sha === '') throw new PayloadError(field, 'is_blank', `The payload has no ${field}.`);
  if (!shas[length].test(sha))
    throw new PayloadError(field, 'invalid_format', `${field} is not a SHA: ${quoted(sha)}.`);
  return sha.toLowerCase();
}

export function refIn(value: unknown, field: string, prefix = ''): string {
  const name = textOf(value);
  if (name === '') throw new PayloadError(field, 'is_blank', `The payload has no ${field}.`);
  const ref = `${prefix}${name}`;
  if (!isRefName(ref))
    throw new PayloadError(field, 'invalid_format', `${field} is not the name of a ref: ${quoted(name)}.`);
  return ref;
}

/** The source branch of a pull request. Only a hint, so invalid names are dropped without an error. */
export function headBranchIn(value: unknown, { fromFork }: Pick<Change, 'fromFork'>): string {
  const name = textOf(value).replace(/^refs\/heads\//, '');
  return !fromFork && isRefName(`refs/heads/${name}`) ? name : '';
}

export function numberIn(value: unknown, field: string): number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value > 0) return value;
  throw new PayloadError(field, value === undefined ? 'is_blank' : 'invalid_format', `${field} is not a number.`);
}

/** Git's value for a ref that does not exist. */
export const isNoCommit = (sha: unknown): boolean => sha === null || /^0+$/.test(textOf(sha));

/** Only a hint, so invalid values are dropped without an error. */
function beforeIn(before: unknown): string {
  if (isNoCommit(before)) return madeByPush;
  const sha = textOf(before).toLowerCase();
  return shas.full.test(sha) ? sha : '';
}

/** Without a SHA the ref was deleted. */
export function movedRef(ref: string, sha: string | undefined, message: string, before?: unknown): Change {
  const [, kind, name = ''] = /^refs\/(heads|tags)\/(.+)$/s.exec(ref) ?? [];
  const change: Change = {
    event: kind === 'tags' ? 'tag' : 'push',
    ref,
    sha: sha ?? '',
    before: beforeIn(before),
    targetBranch: kind === 'heads' ? name : '',
    pullRequest: null,
    fromFork: false,
    headBranch: kind === 'heads' ? name : '',
  };
  const what = kind === 'tags' ? 'tag' : 'branch';
  if (kind === undefined) return ignoring(change, `The ref ${quoted(ref)} is not a branch or tag.`);
  if (sha === undefined) return ignoring(change, `The ${what} ${quoted(name)} was deleted.`);
  return unlessSkipped(change, message);
}

export function ignoring(change: Change, reason: string): Change {
  return { ...change, verdict: { outcome: 'ignored', reason } };
}

export function unlessSkipped(change: Change, message: string): Change {
  const mark = skipMark(message);
  if (mark === undefined) return change;
  const reason = `The message of commit ${change.sha} contains ${mark}.`;
  return { ...change, verdict: { outcome: 'skipped', reason } };
}

export function quoted(text: string): string {
  return `“${tidy(text, 200)}”`;
}

/** On one line, without invisible characters and characters that a database refuses. */
export function tidy(text: string, most: number): string {
  return text
    .slice(0, most + 1)
    .toWellFormed()
    .replaceAll(/[\p{Cc}\p{Cf}\u2028\u2029]+/gu, ' ')
    .slice(0, most)
    .toWellFormed()
    .trim();
}
