import {
  environmentOf,
  isTrustedBranch,
  noVariables,
  variablesFor,
  whyNoVariables,
} from '../lifecycle/build-variables.ts';
import type { BuildVariables } from '../../shared/domain/build-variables.ts';
import { imageBuildsOff } from '../../shared/domain/image-builds.ts';
import { variablesIn } from '../../shared/domain/matrix.ts';
import type { StepOrder, SuiteOrder } from '../../shared/protocol/index.ts';
import type { ClaimedJob } from '../queue/leases.ts';
import type { Layer } from '../software/software.ts';
import { traceparentOf } from '../tracing/traces.ts';
import { withheldCredentials } from './credentials.ts';
import { imageBuildsOrder, imageOrder } from './images.ts';
import type { BuildLimits, JobContext } from './job-handler.ts';
import { isUnderReuse } from './reuse-inputs.ts';
import { orderServices } from './services.ts';
import { noSoftware, suiteSoftware } from './software.ts';
import type { SuiteParts } from './suite-parts.ts';
import { withheldLine } from './withheld.ts';

/** The parts of a build's order that follow from its suite and commit. Nothing begins by making them. */
export type BasicOrder = Omit<SuiteOrder, 'tokens' | 'api' | 'cache' | 'files' | 'lent' | 'from' | 'keep'>;

export interface Prepared {
  /** Its branch is blank if caches and service data of that branch are not for this build. */
  keeping: SuiteParts;
  layers: readonly Layer[];
  /** Dependencies that must be compiled first. */
  missing: readonly Layer[];
  problem: { reason: string; message: string } | undefined;
  /** The line of the log that names what the build lacks. */
  lacks: string | undefined;
  deployStrategy: string | undefined;
  /** As in OrderedServices. */
  hasOwnData: boolean;
  order: BasicOrder;
}

export async function prepareSuite(
  context: JobContext,
  job: Pick<ClaimedJob, 'account_id'>,
  parts: SuiteParts,
): Promise<Prepared> {
  const { image, root, artifacts, reports, services: _stored, ...build } = parts;
  const attached = { suiteId: build.suite_id, accountId: job.account_id, names: parts.dependencies };
  const { missing, layers, ...software } = build.has_software ? await suiteSoftware(context, attached) : noSoftware;
  const given = build.has_variables ? await variablesFor(context, parts) : noVariables;
  const { variables, withheld } = given;
  // A branch's builds made the files in its caches and service data. A build on an untrusted branch uses the default
  // branch's files instead.
  const keeping = (await isTrustedBranch(parts.branch, given)) ? parts : { ...parts, branch: '' };
  const mayHave = whyNoVariables(parts) === undefined;
  const chosen = {
    ...environmentOf(variables.filter(({ isSecret }) => !isSecret)),
    ...(JSON.parse(parts.variables) as Record<string, string>),
    ...environmentOf(variables.filter(({ isSecret }) => isSecret)),
    ...variablesIn(build.variant),
  };
  const services = await orderServices(context, {
    build: keeping,
    services: build.suite_services,
    accountId: job.account_id,
    variables: mayHave ? chosen : undefined,
  });
  const steps = stepsOf(parts);
  const missed = [...withheld, ...withheldCredentials(parts)];
  // Anyone who can push can write a branch's file, so the file must not decide whether a suite gets passwords.
  const hasRegistries = mayHave && (build.project_builds_images === 1 || build.branch_secrets === 1);
  const imageBuilds = await imageBuildsOrder(context, hasRegistries ? job.account_id : null);
  const deploying = await deployVariables(context, build);
  const traceparent = traceparentOf(context, build);
  const isSealed = isUnderReuse(parts);
  const seesRequest = !isSealed || build.uses_request === 1;
  const order: BasicOrder = {
    kind: 'run_suite',
    ...(traceparent !== undefined && { isTraced: true }),
    source: { projectId: String(build.project_id), repositoryUrl: build.clone_url },
    sha: build.sha,
    ...reachedBy(build.fetch_ref, build.commit_ref),
    ...(build.head_sha !== '' && {
      merge: { head: build.head_sha, base: build.merge_base, name: String(build.build_request_id) },
    }),
    isFork: build.from_fork === 1,
    ...(isSealed && { isSealed }),
    ...(isSealed && build.inputs !== '[]' && { inputs: JSON.parse(build.inputs) as string[] }),
    steps,
    environment: {
      ...(traceparent !== undefined && seesRequest && { TRACEPARENT: traceparent }),
      ...chosen,
      CI: 'true',
      ...lastingVariables(parts),
      ...(seesRequest && requestVariables(parts)),
      ...deploying,
    },
    secrets: variables.filter(({ isSecret }) => isSecret).map(({ content }) => content),
    limits: { ...context.limits, timeoutSeconds: timeLimit(build.timeout, context.limits) },
    ...(artifacts !== '[]' && { artifacts: { globs: JSON.parse(artifacts) as string[], ...context.artifacts } }),
    ...(reports !== '[]' && { reports: JSON.parse(reports) as string[] }),
    ...software,
    ...imageOrder(image, job.account_id),
    ...(services.orders.length > 0 && { services: services.orders }),
    ...(root !== null && { root: root === 1 }),
    ...(build.builds_images === 1 && { imageBuilds }),
  };
  const lacks = withheldLine({ withheld: missed, has: chosen, steps, services: build.suite_services });
  const problem =
    build.builds_images === 1 && !context.imageBuilds
      ? { reason: 'image_builds_off', message: imageBuildsOff }
      : services.problem;
  return {
    keeping,
    layers,
    missing: [...missing, ...services.missing],
    problem,
    lacks,
    deployStrategy: deploying.HEADRACE_DEPLOY_STRATEGY,
    hasOwnData: services.hasOwnData,
    order,
  };
}

/** A suite with a command has one step. */
function stepsOf({ command, suite_steps: steps }: SuiteParts): StepOrder[] {
  if (steps === '[]') return [{ name: 'command', command, when: 'passed' }];
  return JSON.parse(steps) as StepOrder[];
}

/** The same for all builds of the suite in this variant. */
function lastingVariables(build: SuiteParts): BuildVariables {
  return {
    HEADRACE: 'true',
    HEADRACE_PROJECT_ID: String(build.project_id),
    HEADRACE_SUITE: build.suite_name,
    HEADRACE_VARIANT: build.variant,
  };
}

/** They would let the result of a build depend on more than its other inputs (order-inputs.ts). */
function requestVariables(build: SuiteParts): BuildVariables {
  const { pull_request: pull, head_sha: headSha } = build;
  return {
    HEADRACE_BUILD_ID: String(build.id),
    HEADRACE_ATTEMPT: String(build.attempt),
    HEADRACE_COMMIT: build.sha,
    HEADRACE_REF: build.commit_ref,
    HEADRACE_BRANCH: build.branch,
    HEADRACE_EVENT: build.event,
    HEADRACE_PULL_REQUEST: pull === null ? '' : String(pull),
    HEADRACE_TARGET_BRANCH: build.target_branch,
    ...(headSha !== '' && { HEADRACE_HEAD_SHA: headSha, HEADRACE_MERGE_BASE: build.merge_base }),
  };
}

function timeLimit(timeout: number, { timeoutSeconds: most }: BuildLimits): number {
  return timeout === 0 ? most : Math.min(timeout, most);
}

/** Fetches bring branches and tags. Any other ref must be named, because not every host serves a bare SHA. */
function reachedBy(...refs: string[]): { fetchRef?: string } {
  const fetchRef = refs.find((ref) => /^refs\/(?!heads\/|tags\/)/.test(ref));
  return fetchRef === undefined ? {} : { fetchRef };
}

/** Only for the build that deploys, not for the suites that it needs. */
async function deployVariables(
  { trx }: JobContext,
  build: Pick<SuiteParts, 'deploy_id' | 'suite_id'>,
): Promise<BuildVariables> {
  if (build.deploy_id === null) return {};
  const deploy = await trx
    .selectFrom('deploys')
    .leftJoin('deploy_strategies', 'deploy_strategies.id', 'deploys.deploy_strategy_id')
    .select('deploy_strategies.name')
    .where('deploys.id', '=', build.deploy_id)
    .where('deploys.suite_id', '=', build.suite_id)
    .executeTakeFirst();
  if (!deploy) return {};
  return {
    HEADRACE_DEPLOY_ID: String(build.deploy_id),
    HEADRACE_DEPLOY_STRATEGY: deploy.name ?? '',
  };
}
