/** The state machines are in lifecycle/states.ts. */

export const buildStates = [
  'enqueued',
  'waiting_for_approval',
  'running',
  'passed',
  'failed',
  'errored',
  'timed_out',
  'cancelled',
  'skipped',
] as const;

export const commitStates = [
  'waiting_for_builds',
  'building',
  'passed',
  'failed',
  'errored',
  'cancelled',
  'skipped',
] as const;

export const projectStates = ['new', ...commitStates] as const;

export const buildRequestStates = [
  'waiting_for_approval',
  'enqueued',
  'fetching',
  'building',
  'passed',
  'failed',
  'errored',
  'cancelled',
] as const;

export const deployStates = [
  'waiting_for_approval',
  'enqueued',
  'deploying',
  'deployed',
  'failed',
  'rejected',
  'cancelled',
] as const;

export const dependencyStates = [
  'waiting_archive_upload',
  'enqueued_for_compile',
  'compiling',
  'compiled',
  'compile_failed',
  'shared',
] as const;

export const deliveryStates = ['pending', 'delivered', 'failed'] as const;

export const testStates = ['passed', 'failed', 'skipped'] as const;
