import type { dependencyFields, registryFields } from '../../../shared/records/dependency.ts';
import type { strategyFields } from '../../../shared/records/deploy.ts';
import type { ColumnsOf } from '../../../shared/records/fields.ts';
import type { forgeFields } from '../../../shared/records/forge.ts';
import type { notificationFields, targetFields } from '../../../shared/records/notification.ts';
import type { projectFields } from '../../../shared/records/project.ts';
import type { ruleFields, suiteFields, variableFields } from '../../../shared/records/suite.ts';
import type { BlobDigest, Sealed } from './values.ts';

/** The settings of projects and dependencies. The columns that people write are those of the fields in records/. */

export interface ProjectRow extends ColumnsOf<typeof projectFields> {
  id: bigint;
  owner_id: bigint;
  build_state: string;
  ssh_public_key: Sealed;
  ssh_private_key: Sealed;
  created_at: bigint;
  /** The sequence number of its newest event. */
  last_event: bigint;
  /** The newest built commit of the repository's default branch; the project's state is that commit's state. */
  default_head_id: bigint | null;
  /** The name of the repository's default branch, as of its newest build; blank while it is not known. */
  default_branch: string;
  /** Since when its state, whenever builds were over, was `passed`; null where it was not. */
  passed_since: bigint | null;
  /** The same for `failed` and `errored`. */
  failed_since: bigint | null;
  /** The connected forge, and the repository's name there; `forge_state` tells whether all is there that is needed. */
  forge_id: bigint | null;
  forge_repository: string;
  /** What the forge itself knows it by, also under another name; blank where none is connected. */
  forge_repository_id: string;
  /** The origin of git over HTTPS, as the forge reported it at the connect; blank if it is not at the forge's host. */
  forge_git_origin: string;
  forge_state: string;
  forge_state_reason: string;
  /** When the forge is asked the next time; null where none is connected. */
  forge_check_at: bigint | null;
  /** Whether what is missing then is put there again. */
  forge_mends: number;
  /** Until then somebody works at what it has at its forge. */
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
  /** The names of those gates (lifecycle/gates.ts) that the file in the repository has set, with commas. */
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
  /** Of the file. */
  digest: string;
  name: string;
  settings: string;
  rules: string;
  dependencies: string;
}

/** The order of `id` is the order in which dependencies were attached, and so the order in which they are layered. */
export interface SuiteDependencyRow {
  id: bigint;
  suite_id: bigint;
  dependency_id: bigint;
}

export interface EnvironmentVariableRow extends ColumnsOf<typeof variableFields> {
  id: bigint;
  /** One of the two: variables of a project are for all its suites. */
  project_id: bigint | null;
  suite_id: bigint | null;
  content: Sealed;
  /** The variable of somebody's environment that a document took its content from; blank where it came otherwise. */
  from_env: string;
}

/** The document that a project was last made of, without contents of variables. */
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
}

/** The credentials of an account for a registry of images. */
export interface RegistryRow extends ColumnsOf<typeof registryFields> {
  id: bigint;
  owner_id: bigint;
  password: Sealed;
  created_at: bigint;
}

/** A forge that an account has connected. */
export interface ForgeRow extends ColumnsOf<typeof forgeFields> {
  id: bigint;
  owner_id: bigint;
  token: Sealed;
  /** Whose token it is. */
  login: string;
  /** As JSON: what the token may, or null. */
  may: string;
  state: string;
  state_reason: string;
  checked_at: bigint;
  created_at: bigint;
  /** It was disconnected, and stays for what is to be taken away there. */
  deleted_at: bigint | null;
  /** Until then one server is at work on what is due there. */
  held_until: bigint;
}

/** A key and a hook of a repository that are to be taken away at the forge; blank where there is none. */
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

export interface DeployStrategyRow extends Omit<ColumnsOf<typeof strategyFields>, 'suite_id'> {
  id: bigint;
  project_id: bigint;
  /** The suite that a deploy runs; null where it pushes. */
  suite_id: bigint | null;
}

/** A receiver of events: of webhooks, or a forge that gets statuses. */
export interface NotificationRow {
  id: bigint;
  project_id: bigint;
  /** The protocol of the receiver, or the name of a forge. */
  name: ColumnsOf<typeof notificationFields>['name'] | ColumnsOf<typeof targetFields>['provider'];
  /** The events it gets; `status` for a forge. */
  notifiable_type: ColumnsOf<typeof notificationFields>['notifiable_type'] | 'status';
  /** The address that is called, or the base of a forge's API. */
  url: string;
  /** The key that signs webhooks, or the token for the forge. */
  secret: Sealed;
  /** The position of its newest delivery. */
  last_position: bigint;
  /** The forge's name of the repository; blank for webhooks. */
  repository: string;
  /** The connected forge whose token is used; null where it has one of its own. */
  forge_id: bigint | null;
}
