import { retryOnOf } from '../../shared/domain/retry-on.ts';
import { suiteFields } from '../../shared/records/suite.ts';
import type { SuiteSettings } from './file-suites.ts';
import type { BuildState } from './states.ts';

/**
 * Every reason that a build ends with, and whether the machine is at fault. Then the build is tried again. A reason that
 * would end the next try too is not the machine's: a mistake, something missing, a refusal.
 */
export const isMachineFault = {
  runner_lost: true,
  files_gone: true,
  disk_full: true,
  not_isolated: true,
  registry_unreachable: true,
  image_pull_failed: true,
  service_died: true,
  host_unreachable: true,
  connection_lost: true,
  remote_failed: true,
  merge_not_possible: true,

  timed_out: false,
  out_of_memory: false,
  log_too_long: false,
  launch_failed: false,
  needed_suite_failed: false,
  files_not_kept: false,
  suite_deleted: false,
  rule_too_slow: false,
  dependency_not_compiled: false,
  variable_missing: false,
  environment_unreadable: false,
  service_not_ready: false,
  service_prepare_failed: false,
  services_need_own_network: false,
  images_not_possible: false,
  image_invalid: false,
  image_not_found: false,
  image_access_refused: false,
  image_digest_mismatch: false,
  image_wrong_architecture: false,
  image_without_shell: false,
  image_too_large: false,
  image_rejected: false,
  image_builds_off: false,
  image_builds_not_possible: false,
  registry_untrusted: false,
  registry_not_allowed: false,
  key_refused: false,
  host_key_changed: false,
  host_key_unknown: false,
  repository_not_found: false,
  malformed_repository: false,
  commit_withheld: false,
  ssh_misconfigured: false,
  not_public: false,
  invalid_url: false,
  invalid_ref: false,
  ref_not_found: false,
  ambiguous_ref: false,
  checkout_too_large: false,
  fetch_timed_out: false,
} as const satisfies Record<string, boolean>;

const machineFaults: ReadonlySet<string> = new Set(
  Object.entries(isMachineFault).flatMap(([reason, isFault]) => (isFault ? [reason] : [])),
);

/** Attempts that one build of a request gets for these reasons, all together. */
export const mostTries = 3;

/** The pause before the second and the third attempt. */
const pausesMs = [1000, 3000];

export function pauseAfter(faults: number): number {
  return pausesMs[faults] ?? 0;
}

export interface Ended {
  state: BuildState;
  reason: string;
  exitStatus: number | null;
  /** Whether a line of its log matches an expression of `retry_on[]`. */
  isInLog: boolean;
}

type Settings = Pick<SuiteSettings, 'retry_on'>;

/** File suites stored by older versions have no `retry_on`. */
export function retryOn(settings: Partial<Settings>) {
  const field = suiteFields.retry_on;
  return retryOnOf(settings.retry_on === undefined ? field.fallback : field.fromColumn(settings.retry_on));
}

export function isTriedAgain(settings: Settings, { state, reason, exitStatus, isInLog }: Ended): boolean {
  if (state !== 'failed' && state !== 'errored' && state !== 'timed_out') return false;
  const on = retryOn(settings);
  return (
    (on.errored && state === 'errored' && machineFaults.has(reason)) ||
    (on.timeout && state === 'timed_out') ||
    (exitStatus !== null && on.exits.includes(exitStatus)) ||
    isInLog
  );
}
