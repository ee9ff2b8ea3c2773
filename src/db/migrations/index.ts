import type { MigrationStep } from '../migrate.ts';
import { foundation } from './0001-foundation.ts';
import { work } from './0002-work.ts';
import { compiles } from './0003-compiles.ts';
import { deploys } from './0004-deploys.ts';
import { webhooks } from './0005-webhooks.ts';
import { oauth } from './0006-oauth.ts';
import { shorterWays } from './0007-shorter-ways.ts';
import { runners } from './0008-runners.ts';
import { audit } from './0009-audit.ts';
import { pinnedDependencies } from './0010-pinned-dependencies.ts';
import { keyAndRunners } from './0011-key-and-runners.ts';
import { plainVariables } from './0012-plain-variables.ts';
import { defaultBranches } from './0013-default-branches.ts';
import { quickerClaims } from './0014-quicker-claims.ts';
import { retention } from './0015-retention.ts';
import { logLines } from './0016-log-lines.ts';
import { dueJobs } from './0017-due-jobs.ts';
import { connectionChecks } from './0018-connection-checks.ts';
import { triggeredRequests } from './0019-triggered-requests.ts';
import { hooks } from './0020-hooks.ts';
import { pollsAndSchedules } from './0021-polls-and-schedules.ts';
import { statusTargets } from './0022-status-targets.ts';
import { tags } from './0023-tags.ts';
import { drainedRunners } from './0024-drained-runners.ts';
import { traces } from './0025-traces.ts';
import { requestsWithoutCommit } from './0026-requests-without-commit.ts';

/** In the order in which they are applied. A released migration never changes; a new one follows it. */
export const migrations: readonly MigrationStep[] = [
  { name: '0001-foundation', apply: foundation },
  { name: '0002-work', apply: work },
  { name: '0003-compiles', apply: compiles },
  { name: '0004-deploys', apply: deploys },
  { name: '0005-webhooks', apply: webhooks },
  { name: '0006-oauth', apply: oauth },
  { name: '0007-shorter-ways', apply: shorterWays },
  { name: '0008-runners', apply: runners },
  { name: '0009-audit', apply: audit },
  { name: '0010-pinned-dependencies', apply: pinnedDependencies },
  { name: '0011-key-and-runners', apply: keyAndRunners },
  { name: '0012-plain-variables', apply: plainVariables },
  { name: '0013-default-branches', apply: defaultBranches },
  { name: '0014-quicker-claims', apply: quickerClaims },
  { name: '0015-retention', apply: retention },
  { name: '0016-log-lines', apply: logLines },
  { name: '0017-due-jobs', apply: dueJobs },
  { name: '0018-connection-checks', apply: connectionChecks },
  { name: '0019-triggered-requests', apply: triggeredRequests },
  { name: '0020-hooks', apply: hooks },
  { name: '0021-polls-and-schedules', apply: pollsAndSchedules },
  { name: '0022-status-targets', apply: statusTargets },
  { name: '0023-tags', apply: tags },
  { name: '0024-drained-runners', apply: drainedRunners },
  { name: '0025-traces', apply: traces },
  { name: '0026-requests-without-commit', apply: requestsWithoutCommit },
];
