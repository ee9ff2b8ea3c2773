/**
 * Every transaction takes locks in this order on PostgreSQL, and rows of one table in the order of their ids. A right
 * is a lock on a name (`holdRight`). Tests check each lock (lock-watch.ts).
 *
 * These need no position in the order:
 * - New rows: no transaction waits for a row that it cannot see. But a new row locks what it refers to against removal.
 *   So deleting a project first locks everything that other transactions lock before they add to the project.
 * - Statements that skip locked rows: they never wait.
 * - Rows written only under another lock. A build, its log and its tests belong to its job, or to its request if it has
 *   no job. A deploy belongs to its job or request, built ref names to `recording`, hook calls to the hook, and a
 *   repository's listing to its poll.
 * - Project settings and the right to change them (`suites`, `room`, `check`, `names`). Their holder waits for no work
 *   of the project, with two exceptions: jobs that get other tags, and builds that wait for a deleted suite. No
 *   transaction that holds such work wants settings.
 */
export const lockOrder = [
  'idempotency_keys',
  'runners',
  'hooks',
  'right schedule',
  'right superseding',
  'queue_turns',
  'jobs',
  'right lane',
  'uploads',
  'right caches',
  'caches',
  'build_inputs',
  'build_requests',
  'right recording',
  'commits',
  'target_heads',
  'right group',
  'kept_builds',
  'right shells',
  'forges',
  'forge_removals',
  'projects',
  'notifications',
  'delivery jobs',
  'webhook_deliveries',
  'schedules',
  'polls',
  'shells',
  'right packing',
] as const;

export type Right =
  | 'caches' // of a project
  | 'check' // the connection of a project
  | 'group' // of builds of a project
  | 'lane' // of deploys
  | 'names' // of an account's projects
  | 'packing' // the files of a build
  | 'recording' // the fetched commits of a project
  | 'room' // for more records of a parent
  | 'schedule'
  | 'shells' // at a location
  | 'suites' // of a project
  | 'superseding'; // older requests of a project
