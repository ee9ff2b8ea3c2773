import type { BlobDigest, Sealed } from './values.ts';

/** What people say about their projects and dependencies. */

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
  /** The sequence of its newest event. */
  last_event: bigint;
  /** The newest commit of the repository's default branch that was built: the project's state is that one's. */
  trunk_commit_id: bigint | null;
  /** After how many seconds its repository is looked at again; 0 where it is not. */
  poll_interval: number;
  /** What becomes of pull requests from forks; see lifecycle/forks.ts. */
  fork_builds: string;
  /** Which older requests a newer one cancels. */
  cancel_superseded: string;
  /** 1 where anybody may see its badge. */
  public_badge: number;
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
}

export interface SuiteRuleRow {
  id: bigint;
  suite_id: bigint;
  subject: string;
  operator: string;
  value: string;
}

/** The order of `id` is the order in which dependencies were attached, and so that in which they are laid over each other. */
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
  /** 0 where it may be seen in logs. */
  secret: number;
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
  /** The blob with the newest source, and what kind of archive it is. */
  archive: BlobDigest | null;
  archive_kind: string | null;
  /** The blob with what was compiled last, and the prefix that it was compiled for. */
  result: BlobDigest | null;
  result_prefix: string;
  /** The prefix that the compile under way is for: the one above may be changed meanwhile. */
  compile_prefix: string;
  /** Whether every account may use it, also while it is compiled anew. */
  shared: number;
  /** The sequence of its newest event. */
  last_event: bigint;
}

export interface DependencyRelationRow {
  id: bigint;
  dependency_id: bigint;
  related_id: bigint;
}

/**
 * One layer of what another account's dependency was when a suite or a dependency began to use it. What lies below comes
 * first, the dependency itself last.
 */
export interface DependencyPinRow {
  /** Whose it is: the one or the other. */
  suite_dependency_id: bigint | null;
  relation_id: bigint | null;
  position: number;
  dependency_id: bigint;
  name: string;
  digest: BlobDigest | null;
  prefix: string;
  launch_command: string;
}

/** Every state that a dependency came to, in order. */
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

/** Somebody who is told of what happens: a receiver of webhooks, or a forge that is told of statuses. */
export interface NotificationRow {
  id: bigint;
  project_id: bigint;
  /** How the receiver is spoken to: `webhook`, or which forge it is. */
  name: string;
  /** What it is told of: `build`, `dependency`, or `status` where it is a forge. */
  notifiable_type: string;
  /** The address that is called, or the base of a forge's API. */
  url: string;
  /** What webhooks are signed with, or the token that the forge asks for. */
  secret: Sealed;
  /** The position of its newest delivery. */
  last_position: bigint;
  /** What the forge calls the repository; blank for webhooks. */
  repository: string;
}
