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
  /** Switched on, for all needed events. */
  active: boolean;
}

/** A forge that lists no events is believed to send all. */
export function hasEvents(events: readonly string[] | undefined, needed: readonly string[]): boolean {
  return events === undefined || events.includes('*') || needed.every((event) => events.includes(event));
}

export interface WantedHook {
  url: string;
  secret: string;
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
  /** For pushes, tags and pull requests. */
  addHook(repository: string, hook: WantedHook): Promise<void>;
  removeHook(repository: string, id: string): Promise<void>;
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
  /** For `unavailable`: do not call earlier. */
  readonly retryAfterMs: number | undefined;
  /** For `moved`: the new path below the API. */
  readonly location: string;
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

export const encoded = (repository: string): string => repository.split('/').map(encodeURIComponent).join('/');
