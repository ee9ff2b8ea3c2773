/**
 * Who may call what: the specification's table of endpoints and the contract's additions, as one list. It is written
 * from the documents and not from the routes, so that each can be held against the other.
 */
export interface Entry {
  call: string;
  access:
    | 'none'
    | 'authenticated'
    | 'users'
    | 'both'
    | 'operators'
    | 'public'
    | 'viewer'
    | 'developer'
    | 'maintainer'
    | 'owner';
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
  GET    /projects/ID                                              public        projects              See, projects
  PUT    /projects/ID                                              maintainer    projects              change, projects, repository, decides what runs with their variables
  DELETE /projects/ID                                              maintainer    projects              delete, projects
  POST   /projects/config                                          users         projects              create, projects, all settings as one document, repository, decides what runs with their variables
  GET    /projects/ID/config                                       maintainer    projects              See, all settings as one document
  PUT    /projects/ID/config                                       maintainer    projects              change, all settings as one document
  GET    /projects/ID/import                                       maintainer    projects              See, repository
  POST   /projects/ID/import                                       maintainer    projects              change, all settings as one document
  GET    /search                                                   both          projects              See, projects
  GET    /projects/ID/badge.svg                                    none          none
  GET    /cctray.xml                                               both          projects              See what happens in them
  POST   /projects/ID/check_connection                             developer     projects              See, repository
  GET    /projects/ID/polling                                      viewer        projects              See, repository
  GET    /projects/ID/schedules                                    viewer        projects              See, schedules
  POST   /projects/ID/schedules                                    developer     projects              create, schedules, start builds
  GET    /projects/ID/schedules/ID                                 viewer        projects              See, schedules
  PUT    /projects/ID/schedules/ID                                 developer     projects              change, schedules, start builds
  DELETE /projects/ID/schedules/ID                                 maintainer    projects              delete, schedules
  GET    /projects/ID/collaborators                                maintainer    projects              See, collaborators
  POST   /projects/ID/collaborators                                maintainer    projects              create, collaborators
  DELETE /projects/ID/collaborators/ID                             maintainer    projects              delete, collaborators
  GET    /projects/ID/build_requests                               public        build_requests        See build requests
  POST   /projects/ID/build_requests                               developer     build_requests_create Start builds, variables, which change what they run
  GET    /projects/ID/build_requests/ID                            public        build_requests        See build requests
  GET    /projects/ID/build_requests/ID/explanation                viewer        build_requests        why their suites ran
  POST   /projects/ID/build_requests/ID/cancel                     developer     build_requests_create cancel, builds
  POST   /projects/ID/build_requests/ID/approve                    developer     build_requests_create approve, builds
  POST   /projects/ID/build_requests/ID/rerun                      developer     build_requests_create repeat builds
  POST   /projects/ID/build_requests/ID/again                      developer     build_requests_create repeat builds
  GET    /projects/ID/build_requests/ID/log                        viewer        build_requests        See, logs of fetches
  GET    /projects/ID/build_requests/ID/log/lines                  viewer        build_requests        See, logs of fetches
  GET    /projects/ID/build_requests/ID/log/search                 viewer        build_requests        See, logs of fetches
  GET    /projects/ID/build_requests/ID/log.txt                    viewer        build_requests        See, logs of fetches
  GET    /projects/ID/build_requests/ID/firehose                   public        build_requests        See, the logs of fetches and builds
  GET    /projects/ID/commits                                      public        commits               See commits
  GET    /projects/ID/commits/ID                                   public        commits               See commits
  GET    /projects/ID/commits/ID/builds                            public        commits               See, builds
  GET    /projects/ID/log_search                                   viewer        commits               See, logs
  GET    /projects/ID/builds                                       public        commits               See, builds
  GET    /projects/ID/builds/ID                                    public        commits               See, builds
  POST   /projects/ID/builds/ID/cancel                             developer     build_requests_create cancel, builds
  POST   /projects/ID/builds/ID/restart                            developer     build_requests_create repeat builds
  POST   /projects/ID/builds/ID/approve                            developer     build_requests_create approve, builds
  POST   /projects/ID/builds/ID/shell                              developer     shells                Open a shell in failed builds, with their variables in clear
  GET    /projects/ID/builds/ID/shell/ID/connection                developer     shells                Open a shell in failed builds, with their variables in clear
  DELETE /projects/ID/builds/ID/shell/ID                           developer     shells                Open a shell in failed builds, with their variables in clear
  GET    /projects/ID/builds/ID/log                                public        commits               See, logs
  GET    /projects/ID/builds/ID/log/lines                          public        commits               See, logs
  GET    /projects/ID/builds/ID/log/search                         public        commits               See, logs
  GET    /projects/ID/builds/ID/log.txt                            public        commits               See, logs
  GET    /projects/ID/builds/ID/firehose                           public        commits               See, logs
  GET    /projects/ID/builds/ID/services/ID/log                  public        commits               See, logs
  GET    /projects/ID/builds/ID/services/ID/log/lines            public        commits               See, logs
  GET    /projects/ID/builds/ID/services/ID/log/search           public        commits               See, logs
  GET    /projects/ID/builds/ID/services/ID/log.txt              public        commits               See, logs
  GET    /projects/ID/builds/ID/services/ID/firehose             public        commits               See, logs
  GET    /projects/ID/builds/ID/artifacts                          public        commits               See, the files that builds left
  GET    /projects/ID/builds/ID/artifacts/ID                       public        commits               download the files that builds left
  GET    /projects/ID/builds/ID/artifacts.zip                      public        commits               download the files that builds left
  GET    /projects/ID/builds/ID/annotations                        public        commits               See, their builds, logs and tests
  GET    /projects/ID/builds/ID/brief                              public        commits               See, their builds, logs and tests
  GET    /projects/ID/builds/ID/log/diff                           public        commits               See, their builds, logs and tests
  GET    /projects/ID/builds/ID/summary                            public        commits               See, their builds, logs and tests
  GET    /projects/ID/builds/ID/summary/view                       public        commits               See, their builds, logs and tests
  GET    /projects/ID/builds/ID/inputs                             viewer        commits               See, their builds, logs and tests
  GET    /projects/ID/builds/ID/tests                              public        commits               See, tests
  GET    /projects/ID/tests/flaky                                  public        commits               See, tests
  GET    /projects/ID/tests/slow                                   public        commits               See, tests
  GET    /projects/ID/firehose                                     public        projects              See what happens in them
  GET    /projects/ID/suites                                       viewer        suites                See, suites
  POST   /projects/ID/suites                                       developer     suites                create, suites, what they run
  GET    /projects/ID/suites/ID                                    viewer        suites                See, suites
  PUT    /projects/ID/suites/ID                                    developer     suites                change, suites, what they run
  DELETE /projects/ID/suites/ID                                    maintainer    suites                delete, suites
  GET    /projects/ID/caches                                       viewer        suites                See, caches
  DELETE /projects/ID/caches                                       developer     suites                delete, caches
  DELETE /projects/ID/caches/ID                                    developer     suites                delete, caches
  GET    /projects/ID/suites/ID/figures                            viewer        commits               See, their builds
  POST   /projects/ID/suites/ID/quiet                              developer     suites                change, suites
  GET    /projects/ID/suites/ID/rules                              viewer        suites                See, rules
  POST   /projects/ID/suites/ID/rules                              developer     suites                create, rules
  PUT    /projects/ID/suites/ID/rules/ID                           developer     suites                change, rules
  DELETE /projects/ID/suites/ID/rules/ID                           developer     suites                delete, rules
  GET    /projects/ID/suites/ID/dependencies                       viewer        suites                See, dependencies
  POST   /projects/ID/suites/ID/dependencies                       developer     suites                change, dependencies
  DELETE /projects/ID/suites/ID/dependencies/ID                    developer     suites                change, dependencies
  POST   /projects/ID/suites/ID/dependencies/ID/update             developer     suites                change, dependencies
  GET    /projects/ID/suites/ID/software                           viewer        suites                See, software
  POST   /projects/ID/transfer                                     maintainer    projects              change, projects
  DELETE /projects/ID/transfer                                     maintainer    projects              change, projects
  POST   /projects/ID/accept                                       users         projects              change, projects
  DELETE /account                                                  both          never
  GET    /organisations/ID/runners                                 owner         organisations         See, their runners
  GET    /organisations/ID/audit                                   owner         organisations         See, organisations
  GET    /organisations/ID/environment_variables                   viewer        organisations         See, environment variables in clear
  POST   /organisations/ID/environment_variables                   maintainer    organisations         create, environment variables in clear
  GET    /organisations/ID/environment_variables/ID                viewer        organisations         See, environment variables in clear
  PUT    /organisations/ID/environment_variables/ID                maintainer    organisations         change, environment variables in clear
  DELETE /organisations/ID/environment_variables/ID                maintainer    organisations         delete, environment variables in clear
  POST   /organisations                                            users         organisations         create, organisations
  GET    /organisations                                            both          organisations         See, organisations
  GET    /organisations/ID                                         viewer        organisations         See, organisations
  PUT    /organisations/ID                                         owner         organisations         change, organisations
  DELETE /organisations/ID                                         owner         organisations         delete, organisations
  GET    /organisations/ID/members                                 viewer        organisations         See, members
  POST   /organisations/ID/members                                 owner         organisations         change, members, by invitation
  PUT    /organisations/ID/members/ID                              owner         organisations         change, members
  DELETE /organisations/ID/members/ID                              viewer        organisations         change, members
  GET    /projects/ID/environment_variables                       viewer        suites                See, environment variables, those of projects in clear
  POST   /projects/ID/environment_variables                       developer     suites                create, environment variables, those of projects in clear
  GET    /projects/ID/environment_variables/ID                    viewer        suites                See, environment variables, those of projects in clear
  PUT    /projects/ID/environment_variables/ID                    developer     suites                change, environment variables, those of projects in clear
  DELETE /projects/ID/environment_variables/ID                    developer     suites                delete, environment variables, those of projects in clear
  GET    /projects/ID/suites/ID/environment_variables              viewer        suites                See, environment variables, in clear
  POST   /projects/ID/suites/ID/environment_variables              developer     suites                create, environment variables, in clear
  GET    /projects/ID/suites/ID/environment_variables/ID           viewer        suites                See, environment variables, in clear
  PUT    /projects/ID/suites/ID/environment_variables/ID           developer     suites                change, environment variables, in clear
  DELETE /projects/ID/suites/ID/environment_variables/ID           developer     suites                delete, environment variables, in clear
  GET    /projects/ID/deploy_strategies                            viewer        deploys               See, deploy strategies
  POST   /projects/ID/deploy_strategies                            developer     deploys               create, deploy strategies
  GET    /projects/ID/deploy_strategies/ID                         viewer        deploys               See, deploy strategies
  PUT    /projects/ID/deploy_strategies/ID                         developer     deploys               change, deploy strategies
  DELETE /projects/ID/deploy_strategies/ID                         maintainer    deploys               delete, deploy strategies
  GET    /projects/ID/deploys                                      viewer        deploys               See, deploys
  POST   /projects/ID/deploys                                      developer     deploys               deploy commits to the repositories
  GET    /projects/ID/deploys/ID                                   viewer        deploys               See, deploys
  POST   /projects/ID/deploys/ID/cancel                            developer     deploys               cancel deploys
  POST   /projects/ID/deploys/ID/approve                           developer     deploys               approve, deploys
  POST   /projects/ID/deploys/ID/reject                            developer     deploys               reject, deploys
  GET    /projects/ID/deploys/ID/log                               viewer        deploys               see their logs
  GET    /projects/ID/deploys/ID/log/lines                         viewer        deploys               see their logs
  GET    /projects/ID/deploys/ID/log/search                        viewer        deploys               see their logs
  GET    /projects/ID/deploys/ID/log.txt                           viewer        deploys               see their logs
  GET    /projects/ID/deploys/ID/firehose                          viewer        deploys               see their logs
  GET    /projects/ID/notifications                                viewer        notifications         See, notifications
  POST   /projects/ID/notifications                                developer     notifications         create, notifications, which tell other addresses what happens
  GET    /projects/ID/notifications/ID                             viewer        notifications         See, notifications
  PUT    /projects/ID/notifications/ID                             developer     notifications         change, notifications, which tell other addresses what happens
  DELETE /projects/ID/notifications/ID                             maintainer    notifications         delete, notifications
  GET    /projects/ID/notifications/ID/deliveries                  viewer        notifications         see what was delivered
  POST   /projects/ID/notifications/ID/deliveries/ID/redeliver     developer     notifications         send it again
  GET    /projects/ID/hooks                                        maintainer    projects              See, hooks
  POST   /projects/ID/hooks                                        maintainer    projects              create, hooks, start builds
  GET    /projects/ID/hooks/ID                                     maintainer    projects              See, hooks
  PUT    /projects/ID/hooks/ID                                     maintainer    projects              change, hooks, start builds
  DELETE /projects/ID/hooks/ID                                     maintainer    projects              delete, hooks
  POST   /projects/ID/hooks/ID/new_secret                          maintainer    projects              change, hooks
  GET    /projects/ID/hooks/ID/deliveries                          viewer        projects              See, hooks
  POST   /projects/ID/hooks/ID/deliveries/ID/replay                maintainer    projects              replays of hooks, start builds
  GET    /projects/ID/status_targets                               maintainer    projects              See, status targets, never shown
  POST   /projects/ID/status_targets                               maintainer    projects              create, status targets, never shown
  GET    /projects/ID/status_targets/ID                            maintainer    projects              See, status targets, never shown
  DELETE /projects/ID/status_targets/ID                            maintainer    projects              delete, status targets, never shown
  GET    /projects/ID/status_targets/ID/deliveries                 maintainer    projects              See, status targets, never shown
  GET    /projects/ID/tests/history                                       public        commits               See, tests
  GET    /projects/ID/tests/trend                                         public        commits               See, tests
  GET    /projects/ID/statistics                                          public        commits               See, their builds
  GET    /projects/ID/deploys/overview                                    viewer        deploys               See, deploys
  GET    /projects/ID/deploys/details                                     viewer        deploys               See, deploys
  GET    /projects/ID/notifications/ID/receiver                           viewer        notifications         see what was delivered
  POST   /projects/ID/notifications/ID/try_now                            developer     notifications         send it again
  GET    /projects/ID/status_targets/ID/receiver                          maintainer    projects              See, status targets, never shown
  POST   /projects/ID/status_targets/ID/try_now                           maintainer    projects              change, status targets, never shown
  GET    /projects/ID/build_requests/ID/details                           public        build_requests        See build requests
  GET    /account/news                                             both          user                  See your e-mail address
  PUT    /account/news                                             both          user                  whether you take news by e-mail
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
  POST   /projects/ID/connect                                      maintainer    projects              set up keys, hooks and statuses there
  GET    /registries                                               users         dependencies          See, credentials for registries of images, without seeing passwords
  POST   /registries                                               users         dependencies          add, credentials for registries of images, without seeing passwords
  DELETE /registries/ID                                            users         dependencies          delete, credentials for registries of images, without seeing passwords
  POST   /api_key                                                  both          never
  GET    /tokens                                                   users         never
  POST   /tokens                                                   users         never
  DELETE /tokens/ID                                                users         never
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
  GET    /projects/ID/overview                                     public        projects              See what happens in them, repository
  GET    /projects/ID/forge_links                                  viewer        projects              See, repository
  GET    /projects/ID/history                                      public        commits               See commits, what they were built for, their builds
  GET    /projects/ID/commits/ID/details                           public        commits               See commits
  GET    /projects/ID/builds/ID/details                            public        commits               See, what they were built for, their builds, the files that builds left
  GET    /projects/ID/build_requests/ID/builds                     public        build_requests        See build requests, their builds, logs of fetches and builds
  GET    /projects/ID/tests/flaky/details                          public        commits               See commits, their builds, tests
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
