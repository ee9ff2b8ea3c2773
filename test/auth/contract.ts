/**
 * Who may call what: the specification's table of endpoints and the contract's additions, as one list. It is written
 * from the documents and not from the routes, so that each can be held against the other.
 */
export interface Entry {
  call: string;
  access: 'none' | 'authenticated' | 'users' | 'both' | 'operators';
  scope: string;
}

function entries(table: string): Entry[] {
  return table
    .trim()
    .split('\n')
    .map((line) => {
      const [method = '', path = '', access = '', scope = ''] = line.trim().split(/\s+/);
      return { call: `${method} ${path}`, access: access as Entry['access'], scope };
    });
}

export const contract = entries(`
  GET    /ping                                                      none          none
  GET    /whoami                                                    authenticated any
  GET    /projects                                                  both          projects
  POST   /projects                                                  users         projects
  GET    /projects/ID                                               both          projects
  PUT    /projects/ID                                               users         projects
  DELETE /projects/ID                                               users         projects
  GET    /projects/ID/config                                        users         projects
  PUT    /projects/ID/config                                        users         projects
  GET    /projects/ID/badge.svg                                     none          none
  GET    /cctray.xml                                                both          projects
  POST   /projects/ID/check_connection                              both          projects
  GET    /projects/ID/polling                                       both          projects
  GET    /projects/ID/schedules                                     both          projects
  POST   /projects/ID/schedules                                     both          projects
  GET    /projects/ID/schedules/ID                                  both          projects
  PUT    /projects/ID/schedules/ID                                  both          projects
  DELETE /projects/ID/schedules/ID                                  users         projects
  GET    /projects/ID/collaborators                                 users         projects
  POST   /projects/ID/collaborators                                 users         projects
  DELETE /projects/ID/collaborators/ID                              users         projects
  GET    /projects/ID/build_requests                                both          build_requests
  POST   /projects/ID/build_requests                                both          build_requests_create
  GET    /projects/ID/build_requests/ID                             both          build_requests
  GET    /projects/ID/build_requests/ID/explanation                 both          build_requests
  POST   /projects/ID/build_requests/ID/cancel                      both          build_requests_create
  POST   /projects/ID/build_requests/ID/approve                     both          build_requests_create
  POST   /projects/ID/build_requests/ID/rerun                       both          build_requests_create
  GET    /projects/ID/build_requests/ID/log                         both          build_requests
  GET    /projects/ID/build_requests/ID/log/lines                   both          build_requests
  GET    /projects/ID/build_requests/ID/log/search                  both          build_requests
  GET    /projects/ID/build_requests/ID/log.txt                     both          build_requests
  GET    /projects/ID/build_requests/ID/firehose                    both          build_requests
  GET    /projects/ID/commits                                       both          commits
  GET    /projects/ID/commits/ID                                    both          commits
  GET    /projects/ID/commits/ID/builds                             both          commits
  GET    /projects/ID/builds                                        both          commits
  GET    /projects/ID/builds/ID                                     both          commits
  POST   /projects/ID/builds/ID/cancel                              both          build_requests_create
  POST   /projects/ID/builds/ID/restart                             both          build_requests_create
  POST   /projects/ID/builds/ID/shell                               both          build_requests_create
  GET    /projects/ID/builds/ID/shell/ID/output                     both          build_requests_create
  POST   /projects/ID/builds/ID/shell/ID/input                      both          build_requests_create
  DELETE /projects/ID/builds/ID/shell/ID                            both          build_requests_create
  GET    /projects/ID/builds/ID/log                                 both          commits
  GET    /projects/ID/builds/ID/log/lines                           both          commits
  GET    /projects/ID/builds/ID/log/search                          both          commits
  GET    /projects/ID/builds/ID/log.txt                             both          commits
  GET    /projects/ID/builds/ID/firehose                            both          commits
  GET    /projects/ID/builds/ID/artifacts                           both          commits
  GET    /projects/ID/builds/ID/artifacts/ID                        both          commits
  GET    /projects/ID/builds/ID/artifacts.zip                       both          commits
  GET    /projects/ID/builds/ID/tests                               both          commits
  GET    /projects/ID/tests/flaky                                   both          commits
  GET    /projects/ID/tests/slow                                    both          commits
  GET    /projects/ID/firehose                                      both          projects
  GET    /projects/ID/suites                                        both          suites
  POST   /projects/ID/suites                                        both          suites
  GET    /projects/ID/suites/ID                                     both          suites
  PUT    /projects/ID/suites/ID                                     both          suites
  DELETE /projects/ID/suites/ID                                     users         suites
  GET    /projects/ID/caches                                        both          suites
  DELETE /projects/ID/caches                                        both          suites
  DELETE /projects/ID/caches/ID                                     both          suites
  GET    /projects/ID/suites/ID/rules                               both          suites
  POST   /projects/ID/suites/ID/rules                               both          suites
  PUT    /projects/ID/suites/ID/rules/ID                            both          suites
  DELETE /projects/ID/suites/ID/rules/ID                            both          suites
  GET    /projects/ID/suites/ID/dependencies                        both          suites
  POST   /projects/ID/suites/ID/dependencies                        both          suites
  DELETE /projects/ID/suites/ID/dependencies/ID                     both          suites
  POST   /projects/ID/suites/ID/dependencies/ID/update              both          suites
  GET    /projects/ID/suites/ID/software                            both          suites
  GET    /projects/ID/suites/ID/environment_variables               both          suites
  POST   /projects/ID/suites/ID/environment_variables               both          suites
  PUT    /projects/ID/suites/ID/environment_variables/ID            both          suites
  DELETE /projects/ID/suites/ID/environment_variables/ID            both          suites
  GET    /projects/ID/deploy_strategies                             both          deploys
  POST   /projects/ID/deploy_strategies                             both          deploys
  GET    /projects/ID/deploy_strategies/ID                          both          deploys
  PUT    /projects/ID/deploy_strategies/ID                          both          deploys
  DELETE /projects/ID/deploy_strategies/ID                          users         deploys
  GET    /projects/ID/deploys                                       both          deploys
  POST   /projects/ID/deploys                                       both          deploys
  GET    /projects/ID/deploys/ID                                    both          deploys
  POST   /projects/ID/deploys/ID/cancel                             both          deploys
  GET    /projects/ID/deploys/ID/log                                both          deploys
  GET    /projects/ID/deploys/ID/log/lines                          both          deploys
  GET    /projects/ID/deploys/ID/log/search                         both          deploys
  GET    /projects/ID/deploys/ID/log.txt                            both          deploys
  GET    /projects/ID/deploys/ID/firehose                           both          deploys
  GET    /projects/ID/notifications                                 both          notifications
  POST   /projects/ID/notifications                                 both          notifications
  GET    /projects/ID/notifications/ID                              both          notifications
  PUT    /projects/ID/notifications/ID                              both          notifications
  DELETE /projects/ID/notifications/ID                              users         notifications
  GET    /projects/ID/notifications/ID/deliveries                   both          notifications
  POST   /projects/ID/notifications/ID/deliveries/ID/redeliver      both          notifications
  GET    /projects/ID/hooks                                         users         projects
  POST   /projects/ID/hooks                                         users         projects
  GET    /projects/ID/hooks/ID                                      users         projects
  PUT    /projects/ID/hooks/ID                                      users         projects
  DELETE /projects/ID/hooks/ID                                      users         projects
  POST   /projects/ID/hooks/ID/new_secret                           users         projects
  GET    /projects/ID/hooks/ID/deliveries                           both          projects
  POST   /projects/ID/hooks/ID/deliveries/ID/replay                 users         projects
  GET    /projects/ID/status_targets                                users         projects
  POST   /projects/ID/status_targets                                users         projects
  GET    /projects/ID/status_targets/ID                             users         projects
  DELETE /projects/ID/status_targets/ID                             users         projects
  GET    /projects/ID/status_targets/ID/deliveries                  users         projects
  GET    /dependencies                                              users         dependencies
  POST   /dependencies                                              users         dependencies
  GET    /dependencies/ID                                           users         dependencies
  PUT    /dependencies/ID                                           users         dependencies
  DELETE /dependencies/ID                                           users         dependencies
  POST   /dependencies/ID/archive                                   users         dependencies
  POST   /dependencies/ID/compile                                   users         dependencies
  GET    /dependencies/ID/log                                       users         dependencies
  GET    /dependencies/ID/log/lines                                 users         dependencies
  GET    /dependencies/ID/log/search                                users         dependencies
  GET    /dependencies/ID/log.txt                                   users         dependencies
  GET    /dependencies/ID/firehose                                  users         dependencies
  GET    /dependencies/ID/result                                    users         dependencies
  GET    /dependencies/ID/uses                                      users         dependencies
  POST   /dependencies/ID/share                                     users         dependencies
  POST   /dependencies/ID/unshare                                   users         dependencies
  GET    /marketplace                                               users         dependencies
  GET    /registries                                                users         dependencies
  POST   /registries                                                users         dependencies
  DELETE /registries/ID                                             users         dependencies
  GET    /audit                                                     operators     user
  GET    /runners                                                   operators     user
  GET    /queue                                                     operators     user
  GET    /operations                                                operators     user
  GET    /users                                                     operators     never
  POST   /users                                                     operators     never
  POST   /users/ID/password_link                                    operators     never
  POST   /users/ID/suspend                                          operators     never
  POST   /users/ID/resume                                           operators     never
`);

/** In the table, and not among the routes: whoever adds such an endpoint takes it off here. */
export const notYetServed: string[] = [];
