import type { Static } from 'typebox';
import {
  boolean,
  dateTime,
  ownId,
  nullableIdWithString,
  integer,
  listOf,
  nullable,
  number,
  object,
  wordOf,
  optional,
  record,
  stateOf,
  string,
  idWithString,
} from './schema.ts';
import { inputKinds } from '../domain/build-inputs.ts';
import { serviceStates } from '../domain/service-states.ts';
import { stepStates } from '../domain/step-states.ts';
import { buildStates, testStates } from './states.ts';
import { waitingReason } from './waiting.ts';

const fields = {
  ...ownId,
  ...nullableIdWithString('suite_id'),
  suite_name: string,
  ...idWithString('commit_id'),
  build_state: stateOf(buildStates),
  attempt: integer,
  exit_status: nullable(integer),
  failure_reason: string,
  allow_failure: boolean,
  variant: string,
  flaky: boolean,
  created_at: dateTime,
  started_at: nullable(dateTime),
  finished_at: nullable(dateTime),
  tests_passed: integer,
  tests_failed: integer,
  tests_skipped: integer,
  ...nullableIdWithString('reused_from_id'),
  ...nullableIdWithString('checks_id'),
  uploads_pending: boolean,
  uploads_lost: string,
  waiting_reason: waitingReason,
  approved_by: string,
  steps: listOf(
    object({
      name: string,
      state: wordOf(stepStates),
      exit_status: nullable(integer),
      started_at: nullable(dateTime),
      finished_at: nullable(dateTime),
      line: nullable(integer),
      cpu_seconds: nullable(number),
      memory_peak: nullable(integer),
    }),
    {
      description: '`line` is the number of the first line of its part of the log; a suite with a command has one step',
    },
  ),
  cpu_seconds: nullable(number),
  memory_peak: nullable(integer),
  disk_written: nullable(integer),
  network_received: nullable(integer),
  network_sent: nullable(integer),
  services: listOf(
    object({
      name: string,
      state: wordOf(serviceStates),
      started_at: nullable(dateTime),
      ready_at: nullable(dateTime),
      finished_at: nullable(dateTime),
      exit_status: nullable(integer),
    }),
    { description: 'services that run alongside it' },
  ),
};
export const buildRecord = record('Build', fields);
export type Build = Static<typeof buildRecord>;

const withheldVariable = object({
  name: string,
  refs: listOf(string),
  reason: wordOf(['fork', 'new_suite', 'pull_request', 'ref']),
});
export type WithheldVariable = Static<typeof withheldVariable>;

/** Also shows until when a shell can be opened in its files. */
export const fetchedBuildRecord = record('FetchedBuild', {
  ...fields,
  files_kept_until: optional(dateTime),
  withheld_variables: listOf(withheldVariable, {
    description: 'The variables of its suite and project that it did not get, and why',
  }),
});

export const annotationRecord = record('Annotation', {
  level: wordOf(['error', 'warning', 'notice']),
  file: nullable(string),
  line: nullable(integer),
  end_line: nullable(integer),
  title: nullable(string),
  message: string,
  log_line: nullable(integer),
});
export type Annotation = Static<typeof annotationRecord>;

export const inputsRecord = record('BuildInputs', {
  digest: nullable(string, { description: 'null until the build began' }),
  inputs: listOf(object({ kind: wordOf(inputKinds), name: string, digest: string })),
  differences: optional(
    listOf(object({ kind: wordOf(inputKinds), name: string, before: nullable(string), after: nullable(string) }), {
      description: 'only with `compare`; `before` is that build’s',
    }),
  ),
});
export type BuildInputs = Static<typeof inputsRecord>;

export const artifactRecord = record('Artifact', {
  ...ownId,
  path: string,
  size: integer,
  sha256: string,
  content_type: string,
});

export const shellRecord = record('Shell', { ...ownId, expires_at: dateTime });

const named = { name: string, class: string, suite: string };

/** Identifies a test in its project, by its suite, class and name. */
const key = string;

/** Of one build. */
const reported = {
  ...named,
  key,
  file: string,
  state: wordOf(testStates),
  duration_ms: integer,
  message: string,
};
export const testRecord = record('Test', {
  ...reported,
  failed_since: nullable(object({ ...idWithString('build_id'), ...idWithString('commit_id'), commit_ref: string })),
});
export type Test = Static<typeof testRecord>;

const pastRun = {
  ...idWithString('build_id'),
  suite_name: string,
  variant: string,
  ...idWithString('commit_id'),
  commit_ref: string,
  branch: string,
};
export const testHistoryRecord = record('TestHistory', {
  ...named,
  failing_since: nullable(object(pastRun)),
  runs: listOf(object({ ...pastRun, state: wordOf(testStates), duration_ms: integer, message: string })),
});
export type TestHistory = Static<typeof testHistoryRecord>;

export const testDayRecord = record('TestDay', {
  day: string,
  builds: integer,
  passed: integer,
  failed: integer,
  skipped: integer,
});
export type TestDay = Static<typeof testDayRecord>;

export const flakyTestRecord = record('FlakyTest', {
  ...named,
  key,
  failures: integer,
  passes: integer,
  last_seen_at: dateTime,
  message: string,
});

export const slowTestRecord = record('SlowTest', { ...named, key, duration_ms: integer, runs: integer });
export type SlowTest = Static<typeof slowTestRecord>;

export const summaryPageRecord = record('SummaryPage', { html: nullable(string) });
