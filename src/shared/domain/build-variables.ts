/** The HEADRACE… variables of builds and compiles. A server that runs inside a build ignores them. */
export const buildVariables = [
  'HEADRACE',
  'HEADRACE_PROJECT_ID',
  'HEADRACE_BUILD_ID',
  'HEADRACE_ATTEMPT',
  'HEADRACE_SUITE',
  'HEADRACE_VARIANT',
  'HEADRACE_COMMIT',
  'HEADRACE_REF',
  'HEADRACE_BRANCH',
  'HEADRACE_EVENT',
  'HEADRACE_PULL_REQUEST',
  'HEADRACE_TARGET_BRANCH',
  'HEADRACE_HEAD_SHA',
  'HEADRACE_MERGE_BASE',
  'HEADRACE_DEPLOY_ID',
  'HEADRACE_DEPLOY_STRATEGY',
  'HEADRACE_TOKEN',
  'HEADRACE_URL',
  'HEADRACE_CA_FILE',
  'HEADRACE_DEPENDENCY_ID',
  'HEADRACE_PREFIX',
  'HEADRACE_ENV',
  'HEADRACE_SECRET_ENV',
  'HEADRACE_SUMMARY',
] as const;

/** Used wherever such variables are set, so that the list stays complete. */
export type BuildVariables = Partial<Record<(typeof buildVariables)[number], string>>;
