import type { BuildRow } from '../db/schema.ts';
import { timestamp, timestampOrNull } from '../../shared/lib/timestamps.ts';
import type { Build } from '../../shared/records/build.ts';
import { servicesOf } from './build-services.ts';
import { stepsOf } from './build-steps.ts';
import { usageOf } from './build-usage.ts';
import { withIdString } from './id-string.ts';

/** `waitingReason` is blank if the build does not wait. */
export function buildView(build: BuildRow, waitingReason: string): Build {
  return {
    ...withIdString('id', build.id),
    ...withIdString('suite_id', build.suite_id),
    suite_name: build.suite_name,
    ...withIdString('commit_id', build.commit_id),
    build_state: build.build_state,
    attempt: build.attempt,
    exit_status: build.exit_status,
    failure_reason: build.failure_reason,
    allow_failure: build.allow_failure === 1,
    variant: build.variant,
    flaky: build.build_state === 'passed' && build.retry > 0,
    created_at: timestamp(build.created_at),
    started_at: timestampOrNull(build.started_at),
    finished_at: timestampOrNull(build.finished_at),
    tests_passed: build.tests_passed,
    tests_failed: build.tests_failed,
    tests_skipped: build.tests_skipped,
    ...withIdString('reused_from_id', build.reused_from_id),
    ...withIdString('checks_id', build.checks_id),
    uploads_pending: build.uploads === 'pending',
    uploads_lost: build.uploads === 'pending' ? '' : build.uploads,
    waiting_reason: waitingReason,
    approved_by: build.approved_by,
    steps: stepsOf(build),
    ...usageOf(build),
    services: servicesOf(build),
  };
}
