import type { BuildState } from '../lifecycle/states.ts';

/** What all forges have in common, as far as Headrace uses it. Each provider has a file of its own. */

export const rights = ['read', 'keys', 'hooks', 'statuses'] as const;
export type Right = (typeof rights)[number];

/** Whose token it is, and what it may do. */
export interface Identity {
  login: string;
  /** null where the forge does not tell. */
  may: Right[] | null;
  /** What the token lacks, as the forge calls it. */
  lacks: string[];
}

export interface ForgeRepository {
  /** The forge's own, which stays when the repository is renamed or moved; blank if it does not tell. */
  id: string;
  full_name: string;
  ssh_url: string;
  https_url: string;
  /** Blank where there is none, or the forge does not tell. */
  default_branch: string;
  private: boolean;
  archived: boolean;
  may_administer: boolean;
}

/** A key or a hook as the forge has it. */
export interface InstalledKey {
  id: string;
  key: string;
}
export interface InstalledHook {
  id: string;
  url: string;
  /** Whether the forge calls it, for every event that is needed. */
  active: boolean;
}

/** Whether a hook is for all of these events. A forge that lists none is believed to have all. */
export function hasEvents(events: readonly string[] | undefined, needed: readonly string[]): boolean {
  return events === undefined || events.includes('*') || needed.every((event) => events.includes(event));
}

/** The address for the forge to call, and the secret with which it proves itself. */
export interface WantedHook {
  url: string;
  secret: string;
}

export interface RepositoryPage {
  repositories: ForgeRepository[];
  hasMore: boolean;
}

/** A forge, with somebody's token. Every method throws a ForgeError. */
export interface Forge {
  whoami(): Promise<Identity>;
  /** Those that the token's owner may push to, newest activity first; pages count from 1. */
  repositories(query: string, page: number): Promise<RepositoryPage>;
  repository(name: string): Promise<ForgeRepository>;
  /** The same by its own ID, whatever it is called now; not there where the forge cannot be asked so. */
  repositoryWithId?(id: string): Promise<ForgeRepository>;
  keys(repository: string): Promise<InstalledKey[]>;
  /** Adds a key that may read. */
  addKey(repository: string, title: string, key: string): Promise<void>;
  removeKey(repository: string, id: string): Promise<void>;
  hooks(repository: string): Promise<InstalledHook[]>;
  /** Adds a hook for pushes, tags and pull requests. */
  addHook(repository: string, hook: WantedHook): Promise<void>;
  removeHook(repository: string, id: string): Promise<void>;
}

/** A forge's address and a token for it. */
export interface ForgeAccess {
  /** The address that people open. */
  url: string;
  token: string;
}

/** How a forge is told the status of a commit. */
export interface StatusForm {
  /** The path of the call, below the base of the API. */
  path: (repository: string, sha: string) => string;
  states: Record<BuildState, string>;
  body: (status: { state: string; context: string; description: string; address: string }) => object;
}

export type ForgeErrorKind =
  /** The token is not taken. */
  | 'refused'
  /** The token may not do this. */
  | 'forbidden'
  /** There is no such thing, or the token may not see it: forges do not tell which. */
  | 'not_found'
  /** It has another name now. */
  | 'moved'
  /** The forge takes the token, and not what was asked. */
  | 'invalid'
  /** The address may not be called, or what answers there is no such forge. */
  | 'not_a_forge'
  /** The forge is away, or wants to be left alone. */
  | 'unavailable';

/** What a forge did not do, in words that a person can read, with what the forge said. */
export class ForgeError extends Error {
  readonly kind: ForgeErrorKind;
  /** For `unavailable`: not before. */
  readonly retryAfterMs: number | undefined;
  /** For `moved`: the path below the API where it is now. */
  readonly location: string;
  /** For `moved`: its name now; blank where that is not known. */
  readonly newName: string;

  constructor(
    kind: ForgeErrorKind,
    message: string,
    more: { retryAfterMs?: number | undefined; location?: string; newName?: string } = {},
  ) {
    super(message);
    this.name = 'ForgeError';
    this.kind = kind;
    this.retryAfterMs = more.retryAfterMs;
    this.location = more.location ?? '';
    this.newName = more.newName ?? '';
  }
}

/** A name that has slashes in it, as a part of a path. */
export const encoded = (repository: string): string => repository.split('/').map(encodeURIComponent).join('/');
