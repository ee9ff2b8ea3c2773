import type { FastifyInstance } from 'fastify';
import { ApiError } from '../../shared/errors.ts';
import { addAssets } from './assets.ts';
import * as account from './account.ts';
import * as accountDeletion from './account-deletion.ts';
import * as artifact from './artifact.ts';
import * as applications from './applications.ts';
import * as authorize from './authorize.ts';
import * as build from './build.ts';
import * as confirm from './confirm.ts';
import * as commit from './commit.ts';
import * as explore from './explore.ts';
import * as logSearch from './log-search.ts';
import * as newProject from './new-project.ts';
import * as invitation from './invitation.ts';
import * as oidc from './oidc.ts';
import * as passkeys from './passkeys.ts';
import * as password from './password.ts';
import * as project from './project.ts';
import * as forges from './forges.ts';
import * as registries from './registries.ts';
import * as request from './request.ts';
import * as run from './run.ts';
import * as search from './search.ts';
import * as imports from './import.ts';
import * as setup from './setup.ts';
import * as shell from './shell.ts';
import * as tests from './tests.ts';
import * as tokens from './tokens.ts';
import * as second from './second.ts';
import * as signIn from './sign-in.ts';
import { addSite, type PageRoute, type SiteServices } from './site.ts';
import * as dashboard from './dashboard.ts';
import * as dependencies from './dependencies.ts';
import * as dependency from './dependency.ts';
import * as deploys from './deploys.ts';
import * as organisationVariables from './organisation-variables.ts';
import * as organisations from './organisations.ts';
import * as operations from './operations.ts';
import * as settingsCaches from './settings-caches.ts';
import * as settingsGeneral from './settings-general.ts';
import * as settingsDeploys from './settings-deploys.ts';
import * as settingsMembers from './settings-members.ts';
import * as settingsParameters from './settings-parameters.ts';
import * as settingsNotifications from './settings-notifications.ts';
import * as settingsTriggers from './settings-triggers.ts';
import * as settingsSuites from './settings-suites.ts';
import * as suiteDependencies from './suite-dependencies.ts';
import * as suiteRules from './suite-rules.ts';
import * as triggerHooks from './trigger-hooks.ts';
import * as triggerSchedules from './trigger-schedules.ts';
import * as triggerStatuses from './trigger-statuses.ts';
import * as variables from './variables.ts';

const ofSettings = [
  settingsGeneral,
  settingsCaches,
  settingsDeploys,
  settingsMembers,
  settingsNotifications,
  settingsParameters,
  settingsSuites,
  settingsTriggers,
  triggerHooks,
  triggerSchedules,
  triggerStatuses,
  suiteDependencies,
  suiteRules,
  variables,
];
const others = [organisations, organisationVariables, deploys, dependencies, dependency, operations];

const ofProjects = [
  dashboard,
  explore,
  search,
  newProject,
  setup,
  imports,
  project,
  run,
  request,
  commit,
  build,
  artifact,
  shell,
  tests,
  logSearch,
];
const ofPeople = [
  signIn,
  second,
  oidc,
  confirm,
  password,
  invitation,
  account,
  accountDeletion,
  tokens,
  passkeys,
  authorize,
  applications,
  registries,
  forges,
];

/** All pages work without scripts. */
export const allRoutes: readonly PageRoute[] = [...ofPeople, ...ofProjects, ...ofSettings, ...others].flatMap(
  ({ routes }) => routes,
);

export function addPages(server: FastifyInstance, services: SiteServices): void {
  addAssets(server);
  addSite(server, allRoutes, services);
  // The root belongs to the API, which has no route there. Browsers are redirected to the pages.
  server.get('/', { config: { provenBy: 'none' } }, (request, reply) => {
    if (!/\btext\/html\b/.test(request.headers.accept ?? '')) throw new ApiError('api_does_not_exists');
    return reply.header('vary', 'accept').redirect('/ui/', 302);
  });
}
