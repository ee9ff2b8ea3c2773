import type { ForgeAccount } from '../lifecycle/forge-deeds.ts';
import type { BuildState } from '../lifecycle/states.ts';

export const rights = ['read', 'keys', 'hooks', 'statuses'] as const;
export type Right = (typeof rights)[number];

export interface Identity {
  login: string;
  /** null if the forge does not report it. */
  may: Right[] | null;
  /** Missing rights, by the forge's own names. */
  lacks: string[];
}

export interface ForgeRepository {
  /** The forge's own ID, which survives a rename or move. Blank if the forge does not report one. */
  id: string;
  full_name: string;
  ssh_url: string;
  https_url: string;
  default_branch: string;
  private: boolean;
  archived: boolean;
  may_administer: boolean;
}

export interface InstalledKey {
  id: string;
  key: string;
}
export interface InstalledHook {
  id: string;
  url: string;
  /** Switched on, for all events that every project needs. */
  active: boolean;
  /** Also for comments on pull requests. */
  hasComments: boolean;
}

/** A forge that lists no events is believed to send all. */
export function hasEvents(events: readonly string[] | undefined, needed: readonly string[]): boolean {
  return events === undefined || events.includes('*') || needed.every((event) => events.includes(event));
}

export interface WantedHook {
  url: string;
  secret: string;
  /** Also for comments on pull requests. */
  comments: boolean;
}

/** `known` may do something in the repository, but not push. */
export type Standing = 'pushes' | 'known' | 'stranger';

export interface CheckRun {
  sha: string;
  address: string;
  conclusion: 'success' | 'neutral';
  title: string;
  summary: string;
  annotations: object[];
}

export interface ForgeComment {
  id: string;
  text: string;
  /** The author's logins. */
  authors: string[];
}

export interface RepositoryPage {
  repositories: ForgeRepository[];
  hasMore: boolean;
}

/** Every method throws a ForgeError. */
export interface Forge {
  whoami(): Promise<Identity>;
  /** Repositories that the token's owner may push to, newest activity first. Pages count from 1. */
  repositories(query: string, page: number): Promise<RepositoryPage>;
  repository(name: string): Promise<ForgeRepository>;
  repositoryWithId?(id: string): Promise<ForgeRepository>;
  keys(repository: string): Promise<InstalledKey[]>;
  /** A read-only key. */
  addKey(repository: string, title: string, key: string): Promise<void>;
  removeKey(repository: string, id: string): Promise<void>;
  hooks(repository: string): Promise<InstalledHook[]>;
  /** For pushes, tags, pull requests and, if wanted, comments. */
  addHook(repository: string, hook: WantedHook): Promise<void>;
  removeHook(repository: string, id: string): Promise<void>;
  /** Anything but a clear answer is an error. */
  standing(repository: string, account: ForgeAccount): Promise<Standing>;
  /** The SHA of a pull request's head, or its first 12 digits. */
  head(repository: string, pull: string): Promise<string>;
  /** Those of a pull request since a time, in any order. Only the newest hundreds. */
  comments(repository: string, pull: string, since: Date): Promise<ForgeComment[]>;
  /** Returns the ID of the comment. */
  addComment(repository: string, pull: string, text: string): Promise<string>;
  changeComment(repository: string, pull: string, id: string, text: string): Promise<void>;
  /** Missing if the forge has no reactions. Safe to repeat. */
  react?(repository: string, pull: string, comment: string): Promise<void>;
  /** Only with an app's token. The newest of a commit takes the place of earlier ones. Returns its ID. */
  addCheckRun?(repository: string, run: CheckRun): Promise<string>;
}

export interface ForgeAccess {
  /** The address of its pages, not of its API. */
  url: string;
  token: string;
}

export interface StatusForm {
  /** Below the base of the API. */
  path: (repository: string, sha: string) => string;
  states: Record<BuildState, string>;
  body: (status: { state: string; context: string; description: string; address: string }) => object;
}

export type ForgeErrorKind =
  | 'refused'
  | 'forbidden'
  /** Not found, or hidden from the token. Forges do not distinguish. */
  | 'not_found'
  | 'moved'
  /** The forge accepts the token but rejects the request. */
  | 'invalid'
  /** The address may not be called, or is not such a forge. */
  | 'not_a_forge'
  /** The forge is unreachable, or limits the rate. */
  | 'unavailable';

/** The message is for users, and quotes the forge. */
export class ForgeError extends Error {
  readonly kind: ForgeErrorKind;
  /** The status of the response. null without one. */
  readonly status: number | null;
  /** For `unavailable`: do not call earlier. */
  readonly retryAfterMs: number | undefined;
  /** For `moved`: the new path below the API. */
  readonly location: string;
  readonly newName: string;

  constructor(
    kind: ForgeErrorKind,
    message: string,
    more: { status?: number; retryAfterMs?: number | undefined; location?: string; newName?: string } = {},
  ) {
    super(message);
    this.name = 'ForgeError';
    this.kind = kind;
    this.status = more.status ?? null;
    this.retryAfterMs = more.retryAfterMs;
    this.location = more.location ?? '';
    this.newName = more.newName ?? '';
  }
}

export const encoded = (repository: string): string => repository.split('/').map(encodeURIComponent).join('/');
