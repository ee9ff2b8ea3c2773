import type { Answers } from '../../server/resources/index.ts';

export const operations = {
  whoami: 'GET /whoami',
  projects: 'GET /projects',
  project: 'GET /projects/:project_id',
  makeProject: 'POST /projects/config',
  newProject: 'POST /projects',
  checkConnection: 'POST /projects/:project_id/check_connection',
  connectProject: 'POST /projects/:project_id/connect',
  forges: 'GET /forges',
  connectForge: 'POST /forges',
  forgeRepositories: 'GET /forges/:forge_id/repositories',
  requests: 'GET /projects/:project_id/build_requests',
  request: 'GET /projects/:project_id/build_requests/:build_request_id',
  ask: 'POST /projects/:project_id/build_requests',
  approveRequest: 'POST /projects/:project_id/build_requests/:build_request_id/approve',
  cancel: 'POST /projects/:project_id/build_requests/:build_request_id/cancel',
  rerun: 'POST /projects/:project_id/build_requests/:build_request_id/rerun',
  explain: 'GET /projects/:project_id/build_requests/:build_request_id/explanation',
  suites: 'GET /projects/:project_id/suites',
  suite: 'GET /projects/:project_id/suites/:suite_id',
  software: 'GET /projects/:project_id/suites/:suite_id/software',
  variables: 'GET /projects/:project_id/environment_variables',
  suiteVariables: 'GET /projects/:project_id/suites/:suite_id/environment_variables',
  builds: 'GET /projects/:project_id/builds',
  build: 'GET /projects/:project_id/builds/:build_id',
  brief: 'GET /projects/:project_id/builds/:build_id/brief',
  buildsOfRequest: 'GET /projects/:project_id/build_requests/:build_request_id/builds',
  searchLogs: 'GET /projects/:project_id/log_search',
  approveBuild: 'POST /projects/:project_id/builds/:build_id/approve',
  restart: 'POST /projects/:project_id/builds/:build_id/restart',
  buildsOfCommit: 'GET /projects/:project_id/commits/:commit_id/builds',
  commits: 'GET /projects/:project_id/commits',
  commit: 'GET /projects/:project_id/commits/:commit_id',
  strategies: 'GET /projects/:project_id/deploy_strategies',
  deploy: 'POST /projects/:project_id/deploys',
  deploys: 'GET /projects/:project_id/deploys',
  oneDeploy: 'GET /projects/:project_id/deploys/:deploy_id',
  approveDeploy: 'POST /projects/:project_id/deploys/:deploy_id/approve',
  config: 'GET /projects/:project_id/config',
  configure: 'PUT /projects/:project_id/config',
  artifacts: 'GET /projects/:project_id/builds/:build_id/artifacts',
  openShell: 'POST /projects/:project_id/builds/:build_id/shell',
  endShell: 'DELETE /projects/:project_id/builds/:build_id/shell/:shell_id',
  openUpload: 'POST /dependencies/:dependency_id/uploads',
  uploaded: 'GET /dependencies/:dependency_id/uploads/:upload_id',
  dependencies: 'GET /dependencies',
} as const satisfies Record<string, keyof Answers>;

export type Name = keyof typeof operations;

/**
 * A parsed identifier is a number if that can hold it, otherwise a bigint (json.ts). The `_str` field is always text.
 */
type OnTheWire<T> = T extends bigint
  ? bigint | number
  : T extends object
    ? { readonly [Field in keyof T]: OnTheWire<T[Field]> }
    : T;

export type Answered<N extends Name> = OnTheWire<Answers[(typeof operations)[N]]>;

export type Project = Answered<'project'>;
export type BuildRequest = Answered<'request'>;
export type Build = Answered<'builds'>[number];
export type Commit = Answered<'commit'>;
export type Deploy = Answered<'oneDeploy'>;

/** Responses that are not records: streams and uploads. */
export const streams = {
  requestEvents: '/projects/:project_id/build_requests/:build_request_id/firehose',
  buildEvents: '/projects/:project_id/builds/:build_id/firehose',
  deployEvents: '/projects/:project_id/deploys/:deploy_id/firehose',
  dependencyEvents: '/dependencies/:dependency_id/firehose',
  serviceLog: '/projects/:project_id/builds/:build_id/services/:service_name/log.txt',
  serviceEvents: '/projects/:project_id/builds/:build_id/services/:service_name/firehose',
  brief: '/projects/:project_id/builds/:build_id/brief',
  buildLog: '/projects/:project_id/builds/:build_id/log.txt',
  summary: '/projects/:project_id/builds/:build_id/summary',
  artifact: '/projects/:project_id/builds/:build_id/artifacts/:artifact_id',
  shell: '/projects/:project_id/builds/:build_id/shell/:shell_id/connection',
  requestLog: '/projects/:project_id/build_requests/:build_request_id/log.txt',
  upload: '/dependencies/:dependency_id/uploads/:upload_id',
  result: '/dependencies/:dependency_id/result',
} as const satisfies Record<string, PathOf<keyof Answers>>;
export type StreamName = keyof typeof streams;

type PathOf<RouteName> = RouteName extends `${string} ${infer Path}` ? Path : never;
