import type {
  AccessTokenRow,
  AuditEntryRow,
  BuildTokenRow,
  IdempotencyKeyRow,
  IdentityRow,
  OauthClientRow,
  OrganisationMemberRow,
  OrganisationRow,
  OauthCodeRow,
  PasskeyRow,
  PasswordLinkRow,
  RecoveryCodeRow,
  RunnerAccountRow,
  RunnerRow,
  RunnerHeartbeatRow,
  SessionRow,
  SignInFailureRow,
  SignInFlowRow,
  UserRow,
  UserTokenRow,
} from './rows/access.ts';
import type { CacheRow, ServiceDataRow } from './rows/caches.ts';
import type { HookDeliveryRow, HookRow } from './rows/hooks.ts';
import type { PolledRefsRow, PollRow, ScheduleRow } from './rows/clock.ts';
import type { ArtifactRow, BuildSummaryRow, UploadRow } from './rows/outputs.ts';
import type { DoomedBlobRow, LogChunkRow, LogIndexRow, LogMarkRow, LogRow } from './rows/logs.ts';
import type {
  ArchivePartRow,
  ArchiveUploadRow,
  CollaboratorRow,
  DependencyEventRow,
  DependencyPinRow,
  DependencyRelationRow,
  DependencyRow,
  DeployStrategyRow,
  EnvironmentVariableRow,
  ForgeRemovalRow,
  ForgeRow,
  NotificationOutcomeRow,
  NotificationRow,
  ProjectDocumentRow,
  ProjectRow,
  RegistryRow,
  SuiteDependencyRow,
  SuiteRow,
  FileSuiteRow,
  SuiteRuleRow,
} from './rows/settings.ts';
import type { KeptBuildRow, ShellRow, StepPointRow } from './rows/shells.ts';
import type { TestFlakeRow, TestResultRow, TestRunRow } from './rows/tests.ts';
import type { AppliedMigrationRow, IdNodeRow, MasterKeyCanaryRow, SigningKeyRow } from './rows/store.ts';
import type {
  BuildRequestRow,
  RequestChangesRow,
  BuildRow,
  SlowStepRow,
  BuildInputsRow,
  ReuseStopRow,
  BuiltRefRow,
  TargetHeadRow,
  CommitRow,
  ConnectionCheckRow,
  WebhookAttemptRow,
  WebhookDeliveryRow,
  PullRequestNotesRow,
  DeployRow,
  EventRow,
  JobRow,
  QueueTurnRow,
} from './rows/work.ts';

export type * from './rows/access.ts';
export type * from './rows/caches.ts';
export type * from './rows/hooks.ts';
export type * from './rows/clock.ts';
export type * from './rows/logs.ts';
export type * from './rows/outputs.ts';
export type * from './rows/settings.ts';
export type * from './rows/shells.ts';
export type * from './rows/store.ts';
export type * from './rows/tests.ts';
export type * from './rows/work.ts';

/**
 * `bigint` columns are ids or moments (milliseconds since 1970). Flags are 0 or 1, because SQLite has no booleans. Only
 * one module writes each table.
 */
export interface Schema {
  users: UserRow;
  organisations: OrganisationRow;
  organisation_members: OrganisationMemberRow;
  projects: ProjectRow;
  project_documents: ProjectDocumentRow;
  collaborators: CollaboratorRow;
  suites: SuiteRow;
  file_suites: FileSuiteRow;
  caches: CacheRow;
  service_data: ServiceDataRow;
  suite_rules: SuiteRuleRow;
  suite_dependencies: SuiteDependencyRow;
  environment_variables: EnvironmentVariableRow;
  dependencies: DependencyRow;
  dependency_relations: DependencyRelationRow;
  dependency_pins: DependencyPinRow;
  dependency_events: DependencyEventRow;
  archive_uploads: ArchiveUploadRow;
  archive_parts: ArchivePartRow;
  registries: RegistryRow;
  forges: ForgeRow;
  forge_removals: ForgeRemovalRow;
  deploy_strategies: DeployStrategyRow;
  deploys: DeployRow;
  notifications: NotificationRow;
  notification_outcomes: NotificationOutcomeRow;
  webhook_deliveries: WebhookDeliveryRow;
  webhook_attempts: WebhookAttemptRow;
  pull_request_notes: PullRequestNotesRow;
  hooks: HookRow;
  hook_deliveries: HookDeliveryRow;
  build_requests: BuildRequestRow;
  request_changes: RequestChangesRow;
  commits: CommitRow;
  builds: BuildRow;
  slow_steps: SlowStepRow;
  build_inputs: BuildInputsRow;
  reuse_stops: ReuseStopRow;
  jobs: JobRow;
  queue_turns: QueueTurnRow;
  events: EventRow;
  artifacts: ArtifactRow;
  build_summaries: BuildSummaryRow;
  uploads: UploadRow;
  logs: LogRow;
  doomed_blobs: DoomedBlobRow;
  log_chunks: LogChunkRow;
  log_marks: LogMarkRow;
  log_indexes: LogIndexRow;
  test_runs: TestRunRow;
  test_results: TestResultRow;
  test_flakes: TestFlakeRow;
  kept_builds: KeptBuildRow;
  step_points: StepPointRow;
  shells: ShellRow;
  built_refs: BuiltRefRow;
  target_heads: TargetHeadRow;
  connection_checks: ConnectionCheckRow;
  polls: PollRow;
  polled_refs: PolledRefsRow;
  schedules: ScheduleRow;
  runners: RunnerRow;
  runner_accounts: RunnerAccountRow;
  runner_heartbeats: RunnerHeartbeatRow;
  idempotency_keys: IdempotencyKeyRow;
  oauth_clients: OauthClientRow;
  oauth_codes: OauthCodeRow;
  access_tokens: AccessTokenRow;
  user_tokens: UserTokenRow;
  sessions: SessionRow;
  password_links: PasswordLinkRow;
  sign_in_failures: SignInFailureRow;
  identities: IdentityRow;
  sign_in_flows: SignInFlowRow;
  passkeys: PasskeyRow;
  recovery_codes: RecoveryCodeRow;
  audit_entries: AuditEntryRow;
  id_nodes: IdNodeRow;
  applied_migrations: AppliedMigrationRow;
  master_key_canary: MasterKeyCanaryRow;
  signing_keys: SigningKeyRow;
  build_tokens: BuildTokenRow;
}

/** For key rotation; all have an `id`. The canary is first: transactions lock its table before the others. */
export const sealedColumns = [
  { table: 'master_key_canary', column: 'sealed' },
  { table: 'projects', column: 'ssh_public_key' },
  { table: 'projects', column: 'ssh_private_key' },
  { table: 'environment_variables', column: 'content' },
  { table: 'notifications', column: 'secret' },
  { table: 'hooks', column: 'secret' },
  { table: 'registries', column: 'password' },
  { table: 'forges', column: 'token' },
  { table: 'kept_builds', column: 'key' },
  { table: 'step_points', column: 'facts' },
  { table: 'identities', column: 'refresh_token' },
  { table: 'sign_in_flows', column: 'data' },
  { table: 'idempotency_keys', column: 'answer' },
  { table: 'signing_keys', column: 'private_key' },
] as const;

/**
 * Every column that refers to blobs. Blobs of a column that is missing here would be lost an hour after
 * they were stored.
 */
export const blobColumns = [
  { table: 'logs', column: 'blob' },
  { table: 'artifacts', column: 'sha256' },
  { table: 'dependencies', column: 'archive' },
  { table: 'dependencies', column: 'result' },
  { table: 'archive_parts', column: 'digest' },
  { table: 'dependency_pins', column: 'digest' },
  { table: 'caches', column: 'digest' },
  { table: 'jobs', column: 'stored_blob' },
  { table: 'uploads', column: 'stored_blob' },
  { table: 'kept_builds', column: 'digest' },
  { table: 'step_points', column: 'digest' },
] as const;

export function sealedLocation(place: (typeof sealedColumns)[number], id: bigint): string {
  return `${place.table}.${place.column}:${id}`;
}
