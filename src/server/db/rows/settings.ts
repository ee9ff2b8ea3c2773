import type { dependencyFields, registryFields } from '../../../shared/records/dependency.ts';
import type { strategyFields } from '../../../shared/records/deploy.ts';
import type { ColumnsOf } from '../../../shared/records/fields.ts';
import type { forgeFields } from '../../../shared/records/forge.ts';
import type { notificationFields, targetFields } from '../../../shared/records/notification.ts';
import type { projectFields } from '../../../shared/records/project.ts';
import type { ruleFields, suiteFields, variableFields } from '../../../shared/records/suite.ts';
import type { BlobDigest, Sealed } from './values.ts';

export interface ProjectRow extends ColumnsOf<typeof projectFields> {
  id: bigint;
  owner_id: bigint;
  build_state: string;
  ssh_public_key: Sealed;
  ssh_private_key: Sealed;
  created_at: bigint;
  last_event: bigint;
  /** The newest built commit of the default branch, whose state the project has. */
  default_head_id: bigint | null;
  /** As of its newest build; blank while unknown. */
  default_branch: string;
  /** Since when its state was `passed` at each end of a build; null if it was not. */
  passed_since: bigint | null;
  failed_since: bigint | null;
  /** `forge_state` tells whether everything needed is there. */
  forge_id: bigint | null;
  forge_repository: string;
  /** The forge's own id of it, which stays when it is renamed; blank if none is connected. */
  forge_repository_id: string;
  /** The origin of git over HTTPS that the forge reported on connecting; blank if it is not at the forge's host. */
  forge_git_origin: string;
  forge_state: string;
  forge_state_reason: string;
  forge_check_at: bigint | null;
  /** Whether that check recreates missing parts. */
  forge_mends: number;
  /** Until then a server works on its parts at the forge. */
  forge_held_until: bigint;
}

export interface CollaboratorRow {
  id: bigint;
  project_id: bigint;
  user_id: bigint;
  created_at: bigint;
}

export interface SuiteRow extends ColumnsOf<typeof suiteFields> {
  id: bigint;
  project_id: bigint;
  /** Gates (lifecycle/gates.ts) set by the repository's file, separated by commas. */
  gates_of_file: string;
}

export interface SuiteRuleRow extends ColumnsOf<typeof ruleFields> {
  id: bigint;
  suite_id: bigint;
}

/** A suite of a file in the repository, as JSON (lifecycle/file-suites.ts). */
export interface FileSuiteRow {
  id: bigint;
  project_id: bigint;
  digest: string;
  name: string;
  settings: string;
  rules: string;
  dependencies: string;
}

/** The order of `id` is the order of attaching and so of layering. */
export interface SuiteDependencyRow {
  id: bigint;
  suite_id: bigint;
  dependency_id: bigint;
}

export interface EnvironmentVariableRow extends ColumnsOf<typeof variableFields> {
  id: bigint;
  /** One of the two: a project's variables are for all its suites. */
  project_id: bigint | null;
  suite_id: bigint | null;
  content: Sealed;
  /** The user's environment variable that a document took its content from; otherwise blank. */
  from_env: string;
}

/** Without contents of variables. */
export interface ProjectDocumentRow {
  project_id: bigint;
  document: string;
}

export interface DependencyRow extends ColumnsOf<typeof dependencyFields> {
  id: bigint;
  owner_id: bigint;
  state: string;
  archive_content_type: string | null;
  archive_file_size: bigint | null;
  created_at: bigint;
  archive: BlobDigest | null;
  archive_kind: string | null;
  result: BlobDigest | null;
  result_prefix: string;
  /** The prefix of the running compile: the setting above may change meanwhile. */
  compile_prefix: string;
  /** Whether every account may use it, also while it is being recompiled. */
  shared: number;
  last_event: bigint;
}

export interface RegistryRow extends ColumnsOf<typeof registryFields> {
  id: bigint;
  owner_id: bigint;
  password: Sealed;
  created_at: bigint;
}

export interface ForgeRow extends ColumnsOf<typeof forgeFields> {
  id: bigint;
  owner_id: bigint;
  token: Sealed;
  login: string;
  may: string;
  state: string;
  state_reason: string;
  checked_at: bigint;
  created_at: bigint;
  /** Set when it was disconnected. The row stays for what must still be removed there. */
  deleted_at: bigint | null;
  /** Until then one server works on what is due there. */
  held_until: bigint;
}

/** Blank if there is none. */
export interface ForgeRemovalRow {
  id: bigint;
  forge_id: bigint;
  repository: string;
  public_key: string;
  hook_url: string;
  created_at: bigint;
  run_after: bigint;
  tries: number;
}

export interface DependencyRelationRow {
  id: bigint;
  dependency_id: bigint;
  related_id: bigint;
}

/** A layer of another account's dependency, as of when its use began. Lowest first, the dependency itself last. */
export interface DependencyPinRow {
  /** One of these two. */
  suite_dependency_id: bigint | null;
  relation_id: bigint | null;
  position: number;
  dependency_id: bigint;
  name: string;
  digest: BlobDigest | null;
  prefix: string;
  launch_command: string;
}

export interface ArchiveUploadRow {
  id: bigint;
  dependency_id: bigint;
  size: bigint;
  received: bigint;
  /** Whether all of it arrived and was accepted. */
  complete: number;
  created_at: bigint;
}

export interface ArchivePartRow {
  upload_id: bigint;
  position: bigint;
  digest: BlobDigest;
}

export interface DependencyEventRow {
  dependency_id: bigint;
  sequence: bigint;
  state: string;
  created_at: bigint;
}

export interface DeployStrategyRow extends Omit<ColumnsOf<typeof strategyFields>, 'suite_id'> {
  id: bigint;
  project_id: bigint;
  /** null if it pushes. */
  suite_id: bigint | null;
}

export interface NotificationRow {
  id: bigint;
  project_id: bigint;
  /** The protocol of the receiver, or the name of a forge. */
  name: ColumnsOf<typeof notificationFields>['name'] | ColumnsOf<typeof targetFields>['provider'];
  /** `status` for a forge. */
  notifiable_type: ColumnsOf<typeof notificationFields>['notifiable_type'] | 'status';
  url: string;
  secret: Sealed;
  last_position: bigint;
  /** Blank for webhooks. */
  repository: string;
  /** The connected forge whose token is used; null if it has its own. */
  forge_id: bigint | null;
}
