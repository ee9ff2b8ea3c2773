import type { AnswersOf } from '../api/route.ts';
import * as account from './account.ts';
import * as annotations from './annotations.ts';
import * as applications from './applications.ts';
import * as archiveUploads from './archive-uploads.ts';
import { artifactViewRoutes } from './artifact-views.ts';
import * as artifacts from './artifacts.ts';
import * as audit from './audit.ts';
import * as badges from './badges.ts';
import * as buildRequests from './build-requests.ts';
import * as briefs from './briefs.ts';
import * as builds from './builds.ts';
import * as buildInputs from './build-inputs.ts';
import * as caches from './caches.ts';
import * as cctray from './cctray.ts';
import * as changes from './changes.ts';
import * as collaborators from './collaborators.ts';
import * as commits from './commits.ts';
import * as config from './config.ts';
import * as connectionChecks from './connection-checks.ts';
import * as dashboard from './dashboard.ts';
import * as deliveries from './webhook-deliveries.ts';
import * as dependencies from './dependencies.ts';
import * as dependencyArchives from './dependency-archives.ts';
import * as dependencyLogs from './dependency-logs.ts';
import * as dependencyUses from './dependency-uses.ts';
import * as deployOverview from './deploy-overview.ts';
import * as deployStrategies from './deploy-strategies.ts';
import * as deploys from './deploys.ts';
import * as details from './details.ts';
import * as environmentVariables from './environment-variables.ts';
import * as forgeLinks from './forge-links.ts';
import * as forges from './forges.ts';
import * as hookDeliveries from './hook-deliveries.ts';
import * as hooks from './hooks.ts';
import * as imports from './imports.ts';
import * as logSearch from './log-search.ts';
import { logViewRoutes } from './log-views.ts';
import * as marketplace from './marketplace.ts';
import * as members from './members.ts';
import * as news from './news.ts';
import * as notifications from './notifications.ts';
import * as operations from './operations.ts';
import * as organisations from './organisations.ts';
import * as overview from './overview.ts';
import * as polling from './polling.ts';
import * as projects from './projects.ts';
import { publicProjects } from './public-projects.ts';
import * as queue from './queue.ts';
import * as registries from './registries.ts';
import * as runners from './runners.ts';
import * as schedules from './schedules.ts';
import * as search from './search.ts';
import * as shells from './shells.ts';
import * as service from './service.ts';
import * as statistics from './statistics.ts';
import * as statusTargets from './status-targets.ts';
import * as software from './software.ts';
import * as suiteDependencies from './suite-dependencies.ts';
import * as suiteFigures from './suite-figures.ts';
import * as suiteRules from './suite-rules.ts';
import * as summaries from './summaries.ts';
import * as suites from './suites.ts';
import * as tests from './tests.ts';
import * as tokens from './tokens.ts';
import * as transfers from './transfers.ts';
import * as users from './users.ts';

export const routes = [
  ...service.routes,
  ...account.routes,
  ...tokens.routes,
  ...applications.routes,
  ...dashboard.routes,
  ...changes.routes,
  ...projects.routes,
  ...transfers.routes,
  ...organisations.routes,
  ...members.routes,
  ...overview.routes,
  ...statistics.routes,
  ...forgeLinks.routes,
  ...forges.routes,
  ...details.routes,
  ...search.routes,
  ...badges.routes,
  ...cctray.routes,
  ...collaborators.routes,
  ...connectionChecks.routes,
  ...polling.routes,
  ...schedules.routes,
  ...buildRequests.routes,
  ...commits.routes,
  ...builds.routes,
  ...logSearch.routes,
  ...annotations.routes,
  ...summaries.routes,
  ...artifacts.routes,
  ...shells.routes,
  ...tests.routes,
  ...suites.routes,
  ...buildInputs.routes,
  ...briefs.routes,
  ...caches.routes,
  ...suiteFigures.routes,
  ...suiteRules.routes,
  ...suiteDependencies.routes,
  ...software.routes,
  ...environmentVariables.routes,
  ...deployStrategies.routes,
  ...deployOverview.routes,
  ...deploys.routes,
  ...notifications.routes,
  ...deliveries.routes,
  ...hooks.routes,
  ...hookDeliveries.routes,
  ...imports.routes,
  ...statusTargets.routes,
  ...dependencies.routes,
  ...dependencyArchives.routes,
  ...archiveUploads.routes,
  ...dependencyLogs.routes,
  ...dependencyUses.routes,
  ...marketplace.routes,
  ...registries.routes,
  ...audit.routes,
  ...runners.routes,
  ...queue.routes,
  ...operations.routes,
  ...users.routes,
  ...news.routes,
  ...config.routes,
];

/** Routes only for our own pages, below `/ui/data`. */
export const pageRoutes = [
  ...logViewRoutes([builds.logged, builds.loggedService, buildRequests.logged, deploys.logged]),
  ...logViewRoutes([dependencyLogs.logged]),
  ...artifactViewRoutes,
  changes.projectChanges,
  publicProjects,
];

export type Answers = AnswersOf<typeof routes> & AnswersOf<typeof pageRoutes>;
