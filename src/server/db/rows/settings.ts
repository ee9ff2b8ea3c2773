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
  /** The newest built commit of the default branch. Its state is the project's state. */
  default_head_id: bigint | null;
  /** As of its newest build; blank while unknown. */
  default_branch: string;
  /** Since when the state was `passed` each time a build ended. null if it was not. */
  passed_since: bigint | null;
  failed_since: bigint | null;
  /** The connected forge. `forge_state` shows whether all needed parts are there. */
  forge_id: bigint | null;
  forge_repository: string;
  /** The forge's own id of the repository, which survives a rename. Blank if none is connected. */
  forge_repository_id: string;
  /** The origin of git over HTTPS that the forge reported on connecting. Blank if it is not at the forge's host. */
  forge_git_origin: string;
  forge_state: string;
  forge_state_reason: string;
  forge_check_at: bigint | null;
  /** Whether the check at `forge_check_at` recreates missing parts. */
  forge_mends: number;
  /** Until then, a server works on the project's parts at the forge. */
  forge_held_until: bigint;
  /** Who may take it over, and who offered it. */
  offered_to_id: bigint | null;
  offered_by_id: bigint | null;
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

/** Dependencies are attached, and so layered, in the order of `id`. */
export interface SuiteDependencyRow {
  id: bigint;
  suite_id: bigint;
  dependency_id: bigint;
}

export interface EnvironmentVariableRow extends ColumnsOf<typeof variableFields> {
  id: bigint;
  /** One of the three is set: a project's variables are for all its suites, an organisation's for all its projects. */
  project_id: bigint | null;
  suite_id: bigint | null;
  organisation_id: bigint | null;
  content: Sealed;
  /** The user's environment variable from which a document took the content. Otherwise blank. */
  from_env: string;
}

/** The document has no contents of variables. */
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
  /** Set when the forge was disconnected. The row stays until everything was removed from the forge. */
  deleted_at: bigint | null;
  /** Until then, one server works on the forge's due jobs. */
  held_until: bigint;
}

/** `public_key` and `hook_url` are blank if there is none to remove. */
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

/**
 * A layer of another account's dependency, as it was when its use began. The lowest layer is first, the dependency
 * itself last.
 */
export interface DependencyPinRow {
  /** One of these two is set. */
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
  /** null if the strategy pushes. */
  suite_id: bigint | null;
}

/** The last outcome that a notification of changes knows, for a branch and what was built of it. */
export interface NotificationOutcomeRow {
  id: bigint;
  notification_id: bigint;
  subject: string;
  /** `passed` or `failed`. */
  outcome: string;
  request_id: bigint;
}

export interface NotificationRow {
  id: bigint;
  project_id: bigint;
  /** The protocol of the receiver, or the name of a forge. */
  name: ColumnsOf<typeof notificationFields>['name'] | ColumnsOf<typeof targetFields>['provider'];
  /** `status` for a forge. */
  notifiable_type: ColumnsOf<typeof notificationFields>['notifiable_type'] | 'status';
  /** Blank for types whose options are sealed. */
  url: string;
  /** What signs the calls of a webhook, the token of a forge, or the options of other types as JSON. */
  secret: Sealed;
  on: ColumnsOf<typeof notificationFields>['on'];
  branches: string;
  last_position: bigint;
  /** Blank without a forge. */
  repository: string;
  /** The connected forge whose token is used. null if the notification has its own token. */
  forge_id: bigint | null;
}
