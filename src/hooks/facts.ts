import type { ErrorCode } from '../errors.ts';
import { isRefName } from '../lib/ref-names.ts';
import { textOf } from './json.ts';

/** What a payload says, in the same words whichever forge it came from. This is what is stored and judged. */
export interface Facts {
  /** What the forge calls it, such as `push` or `repo:push`. */
  event: string;
  action: string;
  /** What the forge calls the person who did it. The author of a commit is whoever its committer says, and not asked. */
  sender: string;
  repository: RepositoryNames;
  changes: Change[];
  /** So many refs more than are looked at. */
  left: number;
  /** Why it asks for nothing, whatever the settings are; blank where it does. */
  idle: string;
}

export interface RepositoryNames {
  /** Such as `owner/name`. */
  names: string[];
  /** Where it can be cloned from or looked at. */
  addresses: string[];
}

export const hookEvents = ['push', 'tag', 'pull_request'] as const;
export type HookEvent = (typeof hookEvents)[number];

/** One ref that was moved, or one pull request. */
export interface Change {
  event: HookEvent;
  /** The ref that leads to the commit. */
  ref: string;
  /** Blank where the tip of the ref is meant. */
  sha: string;
  targetBranch: string;
  pullRequest: number | null;
  fromFork: boolean;
  /** Why it is not built, whatever the settings are. */
  verdict?: { outcome: 'ignored' | 'skipped'; reason: string };
}

/** More refs than that are not looked at: no forge tells of so many at once. */
export const mostChanges = 100;

/** A payload whose proof is right and that makes no sense. */
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

/** A SHA of the payload; a short one where the forge has nothing longer. */
export function shaIn(value: unknown, field: string, length: keyof typeof shas = 'full'): string {
  const sha = textOf(value);
  if (sha === '') throw new PayloadError(field, 'is_blank', `The payload has no ${field}.`);
  if (!shas[length].test(sha)) throw new PayloadError(field, 'invalid_format', `${field} is no SHA: ${quoted(sha)}.`);
  return sha.toLowerCase();
}

export function refIn(value: unknown, field: string, prefix = ''): string {
  const name = textOf(value);
  if (name === '') throw new PayloadError(field, 'is_blank', `The payload has no ${field}.`);
  const ref = `${prefix}${name}`;
  if (!isRefName(ref))
    throw new PayloadError(field, 'invalid_format', `${field} is no name of a ref: ${quoted(name)}.`);
  return ref;
}

/** The number of a pull request. */
export function numberIn(value: unknown, field: string): number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value > 0) return value;
  throw new PayloadError(field, value === undefined ? 'is_blank' : 'invalid_format', `${field} is no number.`);
}

/** What git gives for a ref that is not there. */
export const isNoCommit = (sha: unknown): boolean => sha === null || /^0+$/.test(textOf(sha));

/** A branch or tag that points somewhere else now; without a SHA it is gone. */
export function movedRef(ref: string, sha: string | undefined, message: string): Change {
  const [, kind, name = ''] = /^refs\/(heads|tags)\/(.+)$/s.exec(ref) ?? [];
  const change: Change = {
    event: kind === 'tags' ? 'tag' : 'push',
    ref,
    sha: sha ?? '',
    targetBranch: kind === 'heads' ? name : '',
    pullRequest: null,
    fromFork: false,
  };
  const what = kind === 'tags' ? 'tag' : 'branch';
  if (kind === undefined) return ignoring(change, `The ref ${quoted(ref)} is neither a branch nor a tag.`);
  if (sha === undefined) return ignoring(change, `The ${what} ${quoted(name)} was deleted.`);
  return unlessSkipped(change, message);
}

export function ignoring(change: Change, reason: string): Change {
  return { ...change, verdict: { outcome: 'ignored', reason } };
}

/** People who want no build for a commit say so in its message. */
export function unlessSkipped(change: Change, message: string): Change {
  const [mark] = /\[(?:skip ci|ci skip)\]/i.exec(message) ?? [];
  if (mark === undefined) return change;
  const reason = `The message of commit ${change.sha} says ${mark}.`;
  return { ...change, verdict: { outcome: 'skipped', reason } };
}

/** Something of others in a sentence of ours. */
export function quoted(text: string): string {
  return `“${tidy(text, 200)}”`;
}

/** Text of others in one line, in a bounded length, and without characters that nobody sees or that no database holds. */
export function tidy(text: string, most: number): string {
  return text
    .slice(0, most + 1)
    .toWellFormed()
    .replaceAll(/[\p{Cc}\p{Cf}\u2028\u2029]+/gu, ' ')
    .slice(0, most)
    .toWellFormed()
    .trim();
}
