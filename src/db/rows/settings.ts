import type { BlobDigest, Sealed } from './values.ts';

/** The settings of projects and dependencies. */

export interface ProjectRow {
  id: bigint;
  owner_id: bigint;
  name: string;
  description: string;
  repository_url: string;
  build_state: string;
  ssh_public_key: Sealed;
  ssh_private_key: Sealed;
  created_at: bigint;
  /** The sequence number of its newest event. */
  last_event: bigint;
  /** The newest built commit of the repository's default branch; the project's state is that commit's state. */
  trunk_commit_id: bigint | null;
  /** Its repository is polled after this many seconds; 0 for never. */
  poll_interval: number;
  /** How pull requests from forks are treated; see lifecycle/forks.ts. */
  fork_builds: string;
  /** Which older requests a newer one cancels. */
  cancel_superseded: string;
  /** 1 where the badge is public. */
  public_badge: number;
  /** The path of the document in its repository that it is configured by; blank for none. */
  config_file: string;
  /** The name of the repository's default branch, as of its newest build; blank while it is not known. */
  default_branch: string;
  /** Since when its state, whenever builds were over, was `passed`; null where it was not. */
  passed_since: bigint | null;
  /** The same for `failed` and `errored`. */
  failed_since: bigint | null;
}

export interface CollaboratorRow {
  id: bigint;
  project_id: bigint;
  user_id: bigint;
  created_at: bigint;
}

export interface SuiteRow {
  id: bigint;
  project_id: bigint;
  name: string;
  description: string;
  command: string;
  /** The tags that a runner needs for it, as one text. */
  tags: string;
  /** The longest time that it may take, in seconds; 0 for the server's. */
  timeout: number;
  /** 1 where its failure does not fail its commit. */
  allow_failure: number;
  /** How often it is tried again by itself after a failure. */
  retries: number;
  /** Variables and their values, as a JSON list of `NAME=a,b`. */
  matrix: string;
  /** The image that it runs in; blank for the machine's programs. */
  image: string;
  /** The globs of the files that its builds keep, as a JSON list. */
  artifacts: string;
  /** The paths that builds keep for the next one, as a JSON list. */
  cache: string;
  /** The patterns of its reports of tests, as a JSON list. */
  reports: string;
}

export interface SuiteRuleRow {
  id: bigint;
  suite_id: bigint;
  subject: string;
  operator: string;
  value: string;
}

/** The order of `id` is the order in which dependencies were attached, and so the order in which they are layered. */
export interface SuiteDependencyRow {
  id: bigint;
  suite_id: bigint;
  dependency_id: bigint;
}

export interface EnvironmentVariableRow {
  id: bigint;
  suite_id: bigint;
  name: string;
  content: Sealed;
  /** 0 where its value may appear in logs. */
  secret: number;
  /** The variable of somebody's environment that a document took its content from; blank where it came otherwise. */
  from_env: string;
}

/** The document that a project was last made of, without contents of variables. */
export interface ProjectDocumentRow {
  project_id: bigint;
  document: string;
}

export interface DependencyRow {
  id: bigint;
  owner_id: bigint;
  name: string;
  description: string;
  command: string;
  prefix: string;
  source: string;
  launch_command: string;
  state: string;
  archive_content_type: string | null;
  archive_file_size: bigint | null;
  created_at: bigint;
  /** The blob with the newest source, and its kind of archive. */
  archive: BlobDigest | null;
  archive_kind: string | null;
  /** The blob with the last compiled result, and the prefix that it was compiled for. */
  result: BlobDigest | null;
  result_prefix: string;
  /** The prefix of the compile under way: the setting above may change meanwhile. */
  compile_prefix: string;
  /** Whether every account may use it, also while it is compiled again. */
  shared: number;
  /** The sequence number of its newest event. */
  last_event: bigint;
  /** The image that it is compiled in; blank for the machine's programs. */
  image: string;
}

/** The credentials of an account for a registry of images. */
export interface RegistryRow {
  id: bigint;
  owner_id: bigint;
  /** In the spelling of lib/image-reference.ts. */
  host: string;
  username: string;
  password: Sealed;
  created_at: bigint;
}

export interface DependencyRelationRow {
  id: bigint;
  dependency_id: bigint;
  related_id: bigint;
}

/**
 * One layer of another account's dependency, as it was when a suite or a dependency began to use it. The lowest layer
 * comes first, the dependency itself last.
 */
export interface DependencyPinRow {
  /** The use it belongs to: one of these two. */
  suite_dependency_id: bigint | null;
  relation_id: bigint | null;
  position: number;
  dependency_id: bigint;
  name: string;
  digest: BlobDigest | null;
  prefix: string;
  launch_command: string;
}

/** A source archive that arrives in several requests. */
export interface ArchiveUploadRow {
  id: bigint;
  dependency_id: bigint;
  size: bigint;
  /** This much of it is stored. */
  received: bigint;
  /** Whether all of it arrived and was taken. */
  complete: number;
  created_at: bigint;
}

export interface ArchivePartRow {
  upload_id: bigint;
  /** Where it begins in the archive. */
  position: bigint;
  digest: BlobDigest;
}

/** Every state that a dependency entered, in order. */
export interface DependencyEventRow {
  dependency_id: bigint;
  sequence: bigint;
  state: string;
  created_at: bigint;
}

export interface DeployStrategyRow {
  id: bigint;
  project_id: bigint;
  name: string;
  strategy_type: string;
  repository_url: string;
  local_branch: string;
  remote_branch: string;
}

/** A receiver of events: of webhooks, or a forge that gets statuses. */
export interface NotificationRow {
  id: bigint;
  project_id: bigint;
  /** The protocol of the receiver: `webhook`, or the name of a forge. */
  name: string;
  /** The events it gets: `build`, `dependency`, or `status` for a forge. */
  notifiable_type: string;
  /** The address that is called, or the base of a forge's API. */
  url: string;
  /** The key that signs webhooks, or the token for the forge. */
  secret: Sealed;
  /** The position of its newest delivery. */
  last_position: bigint;
  /** The forge's name of the repository; blank for webhooks. */
  repository: string;
}
