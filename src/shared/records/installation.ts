import * as Type from 'typebox';
import type { Static } from 'typebox';
import {
  boolean,
  dateTime,
  id,
  ownId,
  integer,
  listOf,
  mapOf,
  nullable,
  object,
  wordOf,
  record,
  stateOf,
  string,
  strings,
  idWithString,
} from './schema.ts';

export const whoamiRecord = record('Whoami', { email: string });

const userFields = {
  ...ownId,
  email: string,
  kind: stateOf(['user', 'collaborator']),
  operator: boolean,
  suspended: boolean,
  billing: string,
  has_password: boolean,
  created_at: dateTime,
};
export const userRecord = record('User', userFields);
export type User = Static<typeof userRecord>;
/** Only this response has the link to set a password. */
export const invitedUserRecord = record('InvitedUser', {
  ...userFields,
  password_path: string,
  expires_at: dateTime,
  mailed: boolean,
});
export type InvitedUser = Static<typeof invitedUserRecord>;

export const runnerRecord = record('Runner', {
  name: string,
  kind: wordOf(['local', 'remote']),
  state: wordOf(['idle', 'busy', 'away', 'failing']),
  draining: boolean,
  trouble: string,
  version: string,
  last_seen_at: nullable(dateTime),
  accounts: strings,
  tags: strings,
  slots: integer,
  busy_slots: integer,
  work: listOf(
    object({
      kind: string,
      ...ownId,
      account: string,
      name: string,
      project_name: string,
      started_at: nullable(dateTime),
    }),
  ),
});
export type Runner = Static<typeof runnerRecord>;

export const lookingRecord = record('Looking', { looking: boolean });

const counts = { waiting: integer, running: integer, oldest_seconds: integer };

export const queueRecord = record('Queue', { ...counts, runners: integer, by_tag: mapOf(integer) });

export const operationsRecord = record('Operations', {
  queue: object({ ...counts, accounts: listOf(object({ ...ownId, email: string, ...counts })) }),
  failing_deliveries: listOf(
    object({
      ...idWithString('notification_id'),
      account: string,
      host: string,
      project_name: string,
      tries: integer,
      next_try_at: dateTime,
      status: nullable(integer),
      error: string,
    }),
  ),
  disks: listOf(object({ folder: string, size: integer, free: integer, reserve: integer })),
  versions: object({ headrace: string, node: string, database: string, migration: string }),
});
export type Operations = Static<typeof operationsRecord>;

export const loadRecord = record('Load', {
  since: dateTime,
  step_seconds: integer,
  running: listOf(integer, { description: 'The most builds that ran at once in each step, the oldest first' }),
  waiting: listOf(integer, { description: 'The most builds that waited for a runner at once in each step' }),
});
export type Load = Static<typeof loadRecord>;

export const auditEntryRecord = record('AuditEntry', {
  ...ownId,
  created_at: dateTime,
  action: string,
  actor: nullable(object({ ...ownId, email: string })),
  via: string,
  application: nullable(string),
  address: nullable(string),
  subject: object({ type: string, id: nullable(id), id_str: string, name: string }),
  project_id: nullable(id),
  project_id_str: string,
  details: Type.Unsafe<object>({ type: 'object', additionalProperties: true }),
});
export type AuditEntry = Static<typeof auditEntryRecord>;
