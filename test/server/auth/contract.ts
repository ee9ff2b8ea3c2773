/**
 * Who may call what: the specification's table of endpoints and the contract's additions, as one list. It is written
 * from the documents and not from the routes, so that each can be held against the other.
 */
export interface Entry {
  call: string;
  access: 'none' | 'authenticated' | 'users' | 'both' | 'operators';
  scope: string;
  /** What the sentence of the scope, which a person reads before allowing it, has to say because of this call. */
  told: string[];
}

function entries(table: string): Entry[] {
  return table
    .trim()
    .split('\n')
    .map((line) => {
      const [method = '', path = '', access = '', scope = '', ...told] = line.trim().split(/\s+/);
      const words = told.join(' ').split(', ');
      return { call: `${method} ${path}`, access: access as Entry['access'], scope, told: words };
    });
}

export const contract = entries(`
  GET    /ping                                                     none          none
  GET    /whoami                                                   authenticated any
  GET    /projects                                                 both          projects              See, projects
  POST   /projects                                                 users         projects              create, projects, repository, decides what runs with their variables
  GET    /projects/ID                                              both          projects              See, projects
  PUT    /projects/ID                                              users         projects              change, projects, repository, decides what runs with their variables
  DELETE /projects/ID                                              users         projects              delete, projects
  POST   /projects/config                                          users         projects              create, projects, all settings as one document, repository, decides what runs with their variables
  GET    /projects/ID/config                                       users         projects              See, all settings as one document
  PUT    /projects/ID/config                                       users         projects              change, all settings as one document
  GET    /search                                                   both          projects              See, projects
  GET    /projects/ID/badge.svg                                    none          none
  GET    /cctray.xml                                               both          projects              See what happens in them
  POST   /projects/ID/check_connection                             both          projects              See, repository
  GET    /projects/ID/polling                                      both          projects              See, repository
  GET    /projects/ID/schedules                                    both          projects              See, schedules
  POST   /projects/ID/schedules                                    both          projects              create, schedules, start builds
  GET    /projects/ID/schedules/ID                                 both          projects              See, schedules
  PUT    /projects/ID/schedules/ID                                 both          projects              change, schedules, start builds
  DELETE /projects/ID/schedules/ID                                 users         projects              delete, schedules
  GET    /projects/ID/collaborators                                users         projects              See, collaborators
  POST   /projects/ID/collaborators                                users         projects              create, collaborators
  DELETE /projects/ID/collaborators/ID                             users         projects              delete, collaborators
  GET    /projects/ID/build_requests                               both          build_requests        See build requests
  POST   /projects/ID/build_requests                               both          build_requests_create Start builds, variables, which change what they run
  GET    /projects/ID/build_requests/ID                            both          build_requests        See build requests
  GET    /projects/ID/build_requests/ID/explanation                both          build_requests        why their suites ran
  POST   /projects/ID/build_requests/ID/cancel                     both          build_requests_create cancel, builds
  POST   /projects/ID/build_requests/ID/approve                    both          build_requests_create approve, builds
  POST   /projects/ID/build_requests/ID/rerun                      both          build_requests_create repeat builds
  GET    /projects/ID/build_requests/ID/log                        both          build_requests        See, logs of fetches
  GET    /projects/ID/build_requests/ID/log/lines                  both          build_requests        See, logs of fetches
  GET    /projects/ID/build_requests/ID/log/search                 both          build_requests        See, logs of fetches
  GET    /projects/ID/build_requests/ID/log.txt                    both          build_requests        See, logs of fetches
  GET    /projects/ID/build_requests/ID/firehose                   both          build_requests        See, the logs of fetches and builds
  GET    /projects/ID/commits                                      both          commits               See commits
  GET    /projects/ID/commits/ID                                   both          commits               See commits
  GET    /projects/ID/commits/ID/builds                            both          commits               See, builds
  GET    /projects/ID/builds                                       both          commits               See, builds
  GET    /projects/ID/builds/ID                                    both          commits               See, builds
  POST   /projects/ID/builds/ID/cancel                             both          build_requests_create cancel, builds
  POST   /projects/ID/builds/ID/restart                            both          build_requests_create repeat builds
  POST   /projects/ID/builds/ID/approve                            both          build_requests_create approve, builds
  POST   /projects/ID/builds/ID/shell                              both          shells                Open a shell in failed builds, with their variables in clear
  GET    /projects/ID/builds/ID/shell/ID/connection                both          shells                Open a shell in failed builds, with their variables in clear
  DELETE /projects/ID/builds/ID/shell/ID                           both          shells                Open a shell in failed builds, with their variables in clear
  GET    /projects/ID/builds/ID/log                                both          commits               See, logs
  GET    /projects/ID/builds/ID/log/lines                          both          commits               See, logs
  GET    /projects/ID/builds/ID/log/search                         both          commits               See, logs
  GET    /projects/ID/builds/ID/log.txt                            both          commits               See, logs
  GET    /projects/ID/builds/ID/firehose                           both          commits               See, logs
  GET    /projects/ID/builds/ID/services/ID/log                  both          commits               See, logs
  GET    /projects/ID/builds/ID/services/ID/log/lines            both          commits               See, logs
  GET    /projects/ID/builds/ID/services/ID/log/search           both          commits               See, logs
  GET    /projects/ID/builds/ID/services/ID/log.txt              both          commits               See, logs
  GET    /projects/ID/builds/ID/services/ID/firehose             both          commits               See, logs
  GET    /projects/ID/builds/ID/artifacts                          both          commits               See, the files that builds left
  GET    /projects/ID/builds/ID/artifacts/ID                       both          commits               download the files that builds left
  GET    /projects/ID/builds/ID/artifacts.zip                      both          commits               download the files that builds left
  GET    /projects/ID/builds/ID/tests                              both          commits               See, tests
  GET    /projects/ID/tests/flaky                                  both          commits               See, tests
  GET    /projects/ID/tests/slow                                   both          commits               See, tests
  GET    /projects/ID/tests/history                                both          commits               See, tests
  GET    /projects/ID/tests/trend                                  both          commits               See, tests
  GET    /projects/ID/statistics                                   both          commits               See, their builds
  GET    /projects/ID/firehose                                     both          projects              See what happens in them
  GET    /projects/ID/suites                                       both          suites                See, suites
  POST   /projects/ID/suites                                       both          suites                create, suites, what they run
  GET    /projects/ID/suites/ID                                    both          suites                See, suites
  PUT    /projects/ID/suites/ID                                    both          suites                change, suites, what they run
  DELETE /projects/ID/suites/ID                                    users         suites                delete, suites
  GET    /projects/ID/caches                                       both          suites                See, caches
  DELETE /projects/ID/caches                                       both          suites                delete, caches
  DELETE /projects/ID/caches/ID                                    both          suites                delete, caches
  GET    /projects/ID/suites/ID/rules                              both          suites                See, rules
  POST   /projects/ID/suites/ID/rules                              both          suites                create, rules
  PUT    /projects/ID/suites/ID/rules/ID                           both          suites                change, rules
  DELETE /projects/ID/suites/ID/rules/ID                           both          suites                delete, rules
  GET    /projects/ID/suites/ID/dependencies                       both          suites                See, dependencies
  POST   /projects/ID/suites/ID/dependencies                       both          suites                change, dependencies
  DELETE /projects/ID/suites/ID/dependencies/ID                    both          suites                change, dependencies
  POST   /projects/ID/suites/ID/dependencies/ID/update             both          suites                change, dependencies
  GET    /projects/ID/suites/ID/software                           both          suites                See, software
  GET    /projects/ID/environment_variables                       both          suites                See, environment variables, those of projects in clear
  POST   /projects/ID/environment_variables                       both          suites                create, environment variables, those of projects in clear
  GET    /projects/ID/environment_variables/ID                    both          suites                See, environment variables, those of projects in clear
  PUT    /projects/ID/environment_variables/ID                    both          suites                change, environment variables, those of projects in clear
  DELETE /projects/ID/environment_variables/ID                    both          suites                delete, environment variables, those of projects in clear
  GET    /projects/ID/suites/ID/environment_variables              both          suites                See, environment variables, in clear
  POST   /projects/ID/suites/ID/environment_variables              both          suites                create, environment variables, in clear
  GET    /projects/ID/suites/ID/environment_variables/ID           both          suites                See, environment variables, in clear
  PUT    /projects/ID/suites/ID/environment_variables/ID           both          suites                change, environment variables, in clear
  DELETE /projects/ID/suites/ID/environment_variables/ID           both          suites                delete, environment variables, in clear
  GET    /projects/ID/deploy_strategies                            both          deploys               See, deploy strategies
  POST   /projects/ID/deploy_strategies                            both          deploys               create, deploy strategies
  GET    /projects/ID/deploy_strategies/ID                         both          deploys               See, deploy strategies
  PUT    /projects/ID/deploy_strategies/ID                         both          deploys               change, deploy strategies
  DELETE /projects/ID/deploy_strategies/ID                         users         deploys               delete, deploy strategies
  GET    /projects/ID/deploys                                      both          deploys               See, deploys
  POST   /projects/ID/deploys                                      both          deploys               deploy commits to the repositories
  GET    /projects/ID/deploys/ID                                   both          deploys               See, deploys
  POST   /projects/ID/deploys/ID/cancel                            both          deploys               cancel deploys
  POST   /projects/ID/deploys/ID/approve                           both          deploys               approve, deploys
  POST   /projects/ID/deploys/ID/reject                            both          deploys               reject, deploys
  GET    /projects/ID/deploys/overview                             both          deploys               See, deploys
  GET    /projects/ID/deploys/details                              both          deploys               See, deploys
  GET    /projects/ID/deploys/ID/log                               both          deploys               see their logs
  GET    /projects/ID/deploys/ID/log/lines                         both          deploys               see their logs
  GET    /projects/ID/deploys/ID/log/search                        both          deploys               see their logs
  GET    /projects/ID/deploys/ID/log.txt                           both          deploys               see their logs
  GET    /projects/ID/deploys/ID/firehose                          both          deploys               see their logs
  GET    /projects/ID/notifications                                both          notifications         See, notifications
  POST   /projects/ID/notifications                                both          notifications         create, notifications, which tell other addresses what happens
  GET    /projects/ID/notifications/ID                             both          notifications         See, notifications
  PUT    /projects/ID/notifications/ID                             both          notifications         change, notifications, which tell other addresses what happens
  DELETE /projects/ID/notifications/ID                             users         notifications         delete, notifications
  GET    /projects/ID/notifications/ID/deliveries                  both          notifications         see what was delivered
  POST   /projects/ID/notifications/ID/deliveries/ID/redeliver     both          notifications         send it again
  GET    /projects/ID/notifications/ID/receiver                    both          notifications         see what was delivered
  POST   /projects/ID/notifications/ID/try_now                     both          notifications         send it again
  GET    /projects/ID/hooks                                        users         projects              See, hooks
  POST   /projects/ID/hooks                                        users         projects              create, hooks, start builds
  GET    /projects/ID/hooks/ID                                     users         projects              See, hooks
  PUT    /projects/ID/hooks/ID                                     users         projects              change, hooks, start builds
  DELETE /projects/ID/hooks/ID                                     users         projects              delete, hooks
  POST   /projects/ID/hooks/ID/new_secret                          users         projects              change, hooks
  GET    /projects/ID/hooks/ID/deliveries                          both          projects              See, hooks
  POST   /projects/ID/hooks/ID/deliveries/ID/replay                users         projects              replays of hooks, start builds
  GET    /projects/ID/status_targets                               users         projects              See, status targets, never shown
  POST   /projects/ID/status_targets                               users         projects              create, status targets, never shown
  GET    /projects/ID/status_targets/ID                            users         projects              See, status targets, never shown
  DELETE /projects/ID/status_targets/ID                            users         projects              delete, status targets, never shown
  GET    /projects/ID/status_targets/ID/deliveries                 users         projects              See, status targets, never shown
  GET    /projects/ID/status_targets/ID/receiver                   users         projects              See, status targets, never shown
  POST   /projects/ID/status_targets/ID/try_now                    users         projects              change, status targets, never shown
  GET    /dependencies                                             users         dependencies          See, dependencies
  POST   /dependencies                                             users         dependencies          create, dependencies
  GET    /dependencies/ID                                          users         dependencies          See, dependencies
  PUT    /dependencies/ID                                          users         dependencies          change, dependencies
  DELETE /dependencies/ID                                          users         dependencies          delete, dependencies
  POST   /dependencies/ID/archive                                  users         dependencies          upload, compile, runs their commands
  POST   /dependencies/ID/uploads                                  users         dependencies          upload, dependencies
  GET    /dependencies/ID/uploads/ID                               users         dependencies          upload, dependencies
  PATCH  /dependencies/ID/uploads/ID                               users         dependencies          upload, compile, runs their commands
  DELETE /dependencies/ID/uploads/ID                               users         dependencies          upload, dependencies
  POST   /dependencies/ID/compile                                  users         dependencies          compile, runs their commands, dependencies
  GET    /dependencies/ID/log                                      users         dependencies          see their logs
  GET    /dependencies/ID/log/lines                                users         dependencies          see their logs
  GET    /dependencies/ID/log/search                               users         dependencies          see their logs
  GET    /dependencies/ID/log.txt                                  users         dependencies          see their logs
  GET    /dependencies/ID/firehose                                 users         dependencies          see their logs
  GET    /dependencies/ID/result                                   users         dependencies          download, dependencies
  GET    /dependencies/ID/uses                                     users         dependencies          see, uses
  POST   /dependencies/ID/share                                    users         dependencies          share with every account, dependencies
  POST   /dependencies/ID/unshare                                  users         dependencies          share with every account, dependencies
  GET    /marketplace                                              users         dependencies          see, the marketplace
  GET    /forges                                                   users         projects              See, connected forges
  POST   /forges                                                   users         projects              connect, forges, tokens that are never shown
  GET    /forges/ID                                                users         projects              See, connected forges
  PUT    /forges/ID                                                users         projects              change, forges, tokens that are never shown
  DELETE /forges/ID                                                users         projects              delete, forges
  POST   /forges/ID/check                                          users         projects              See, connected forges
  GET    /forges/ID/repositories                                   users         projects              See, the repositories there
  POST   /projects/ID/connect                                      users         projects              set up keys, hooks and statuses there
  GET    /registries                                               users         dependencies          See, credentials for registries of images, without seeing passwords
  POST   /registries                                               users         dependencies          add, credentials for registries of images, without seeing passwords
  DELETE /registries/ID                                            users         dependencies          delete, credentials for registries of images, without seeing passwords
  POST   /api_key                                                  both          never
  GET    /applications                                             both          never
  POST   /applications                                             both          never
  GET    /applications/ID                                          both          never
  PUT    /applications/ID                                          both          never
  DELETE /applications/ID                                          both          never
  POST   /applications/ID/new_secret                               both          never
  GET    /authorizations                                           both          never
  DELETE /authorizations/ID                                        both          never
  GET    /changes                                                  both          never
  GET    /dashboard                                                both          projects              See, projects, collaborators, See what happens in them
  GET    /projects/ID/overview                                     both          projects              See what happens in them, repository
  GET    /projects/ID/forge_links                                  both          projects              See, repository
  GET    /projects/ID/history                                      both          commits               See commits, what they were built for, their builds
  GET    /projects/ID/commits/ID/details                           both          commits               See commits
  GET    /projects/ID/build_requests/ID/details                    both          build_requests        See build requests
  GET    /projects/ID/builds/ID/details                            both          commits               See, what they were built for, their builds, the files that builds left
  GET    /projects/ID/build_requests/ID/builds                     both          build_requests        See build requests, their builds, logs of fetches and builds
  GET    /projects/ID/tests/flaky/details                          both          commits               See commits, their builds, tests
  GET    /audit                                                    operators     user                  the audit log
  GET    /runners                                                  operators     user                  the runners
  POST   /runners/look                                             operators     never
  GET    /queue                                                    operators     user                  the state of the service
  GET    /operations                                               operators     user                  the state of the service
  GET    /operations/load                                          operators     user                  the state of the service
  GET    /users                                                    operators     never
  POST   /users                                                    operators     never
  POST   /users/ID/password_link                                   operators     never
  POST   /users/ID/suspend                                         operators     never
  POST   /users/ID/resume                                          operators     never
`);

/** In the table, and not among the routes: whoever adds such an endpoint takes it off here. */
export const notYetServed: string[] = [];
