import { list, one, type AnswerOf } from './shapes.ts';

/** Every call that the command line makes. Paths are those of the OpenAPI document. */

const project = {
  id_str: 'string',
  name: 'string',
  repository_url: 'string',
  build_state: 'string',
  owned: 'boolean',
} as const;

const buildRequest = {
  id_str: 'string',
  build_state: 'string',
  commit_ref: 'string',
  commit_id_str: 'string',
  created_by: 'string',
  created_at: 'string',
  event: 'string',
  target_branch: 'string',
  waiting_reason: 'string',
} as const;

const build = {
  id_str: 'string',
  suite_id_str: 'string',
  commit_id_str: 'string',
  variant: 'string',
  build_state: 'string',
  attempt: 'number',
  exit_status: 'number|null',
  failure_reason: 'string',
  created_at: 'string',
  started_at: 'string|null',
  finished_at: 'string|null',
  waiting_reason: 'string',
} as const;

const commit = {
  id_str: 'string',
  ref: 'string',
  build_state: 'string',
  message: 'string',
  scm_author_name: 'string',
} as const;

const deploy = {
  id_str: 'string',
  state: 'string',
  created_by: 'string',
  commit_id_str: 'string',
} as const;

const configured = {
  applied: 'boolean',
  changes: {
    each: {
      action: 'string',
      what: 'string',
      fields: { each: { name: 'string', from: 'string', to: 'string' } },
      secret: 'string?',
      url: 'string?',
    },
  },
} as const;

const page = ['limit', 'before'];

export const operations = {
  whoami: one('GET /whoami', { email: 'string' }),
  projects: list('GET /projects', project),
  project: one('GET /projects/{project_id}', project),
  makeProject: one('POST /projects/config', { id_str: 'string', ...configured, ssh_public_key: 'string' }, [
    'document',
    'dry_run',
  ]),
  requests: list('GET /projects/{project_id}/build_requests', buildRequest, page),
  request: one('GET /projects/{project_id}/build_requests/{build_request_id}', buildRequest),
  ask: one('POST /projects/{project_id}/build_requests', buildRequest, ['commit_ref', 'suites[]']),
  cancel: one('POST /projects/{project_id}/build_requests/{build_request_id}/cancel', buildRequest),
  rerun: one('POST /projects/{project_id}/build_requests/{build_request_id}/rerun', buildRequest, ['failed_only']),
  explain: list('GET /projects/{project_id}/build_requests/{build_request_id}/explanation', {
    name: 'string',
    runs: 'boolean',
    why: 'string',
  }),
  suites: list('GET /projects/{project_id}/suites', { id_str: 'string', name: 'string', command: 'string' }),
  suite: one('GET /projects/{project_id}/suites/{suite_id}', {
    id_str: 'string',
    name: 'string',
    command: 'string',
    image: 'string',
    timeout: 'number',
    matrix: 'strings',
  }),
  software: one('GET /projects/{project_id}/suites/{suite_id}/software', {
    layers: { each: { dependency_id_str: 'string', name: 'string', prefix: 'string', digest: 'string' } },
    prefixes: 'strings',
    launches: { each: { name: 'string', command: 'string' } },
    missing: 'strings',
  }),
  variables: list('GET /projects/{project_id}/suites/{suite_id}/environment_variables', {
    name: 'string',
    content: 'string',
    secret: 'boolean',
  }),
  builds: list('GET /projects/{project_id}/builds', build, page),
  build: one('GET /projects/{project_id}/builds/{build_id}', { ...build, files_kept_until: 'string?' }),
  buildsOfCommit: list('GET /projects/{project_id}/commits/{commit_id}/builds', build, [...page, 'counted']),
  commits: list('GET /projects/{project_id}/commits', { id_str: 'string', ref: 'string', build_state: 'string' }, page),
  commit: one('GET /projects/{project_id}/commits/{commit_id}', commit),
  strategies: list('GET /projects/{project_id}/deploy_strategies', { id_str: 'string', name: 'string' }),
  deploy: one('POST /projects/{project_id}/deploys', deploy, ['deploy_strategy_id', 'commit_id']),
  config: one('GET /projects/{project_id}/config', { document: 'string' }),
  configure: one('PUT /projects/{project_id}/config', configured, ['document', 'prune', 'dry_run']),
  artifacts: list(
    'GET /projects/{project_id}/builds/{build_id}/artifacts',
    { id_str: 'string', path: 'string', size: 'number', sha256: 'string' },
    page,
  ),
  openShell: one('POST /projects/{project_id}/builds/{build_id}/shell', { id_str: 'string', expires_at: 'string' }),
  type: one('POST /projects/{project_id}/builds/{build_id}/shell/{shell_id}/input', { taken: 'number' }, [
    'offset',
    'data',
  ]),
  endShell: one('DELETE /projects/{project_id}/builds/{build_id}/shell/{shell_id}', { destroyed: 'boolean' }),
  openUpload: one('POST /dependencies/{dependency_id}/uploads', { id_str: 'string' }, ['size']),
  uploaded: one('GET /dependencies/{dependency_id}/uploads/{upload_id}', { offset: 'number', complete: 'boolean' }),
  dependencies: list('GET /dependencies', { id_str: 'string', name: 'string', marketplace_state: 'string' }),
} as const;

export type Operations = typeof operations;
export type Name = keyof Operations;
export type Answered<N extends Name> = AnswerOf<Operations[N]>;

export type Project = Answered<'project'>;
export type BuildRequest = Answered<'request'>;
export type Build = Answered<'builds'>[number];
export type Commit = Answered<'commit'>;

/** Answers that are no records: streams and uploads. */
export const streams = {
  requestEvents: '/projects/{project_id}/build_requests/{build_request_id}/firehose',
  buildEvents: '/projects/{project_id}/builds/{build_id}/firehose',
  deployEvents: '/projects/{project_id}/deploys/{deploy_id}/firehose',
  dependencyEvents: '/dependencies/{dependency_id}/firehose',
  buildLog: '/projects/{project_id}/builds/{build_id}/log.txt',
  artifact: '/projects/{project_id}/builds/{build_id}/artifacts/{artifact_id}',
  shellOutput: '/projects/{project_id}/builds/{build_id}/shell/{shell_id}/output',
  requestLog: '/projects/{project_id}/build_requests/{build_request_id}/log.txt',
  upload: '/dependencies/{dependency_id}/uploads/{upload_id}',
  result: '/dependencies/{dependency_id}/result',
} as const;
export type StreamName = keyof typeof streams;
