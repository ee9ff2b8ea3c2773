import type { BuildRow } from '../db/schema.ts';
import { holdForBuilds } from '../lifecycle/apply-rollup.ts';
import { dropArtifacts } from '../outputs/artifacts.ts';
import { dropSummary } from '../outputs/summaries.ts';
import { openServices } from '../lifecycle/build-services.ts';
import { noteCommands, noteSteps, waitingSteps } from '../lifecycle/build-steps.ts';
import {
  environmentOf,
  isTrustedBranch,
  noVariables,
  variablesFor,
  whyNoVariables,
} from '../lifecycle/build-variables.ts';
import { advanceBuild, endBuild, loseBuild } from '../lifecycle/builds.ts';
import { lenders } from '../lifecycle/lent-files.ts';
import { forgetKept } from '../lifecycle/kept-builds.ts';
import type { Layer } from '../software/software.ts';
import type { BuildState } from '../lifecycle/states.ts';
import { traceparentOf } from '../tracing/traces.ts';
import type { BuildVariables } from '../../shared/domain/build-variables.ts';
import { imageBuildsOff } from '../../shared/domain/image-builds.ts';
import { variablesIn } from '../../shared/domain/matrix.ts';
import type { Outcome, StepOrder, SuiteOrder } from '../../shared/protocol/index.ts';
import type { ClaimedJob } from '../queue/leases.ts';
import { addLine } from '../streams/logs.ts';
import { findAwaited } from './awaited.ts';
import { noteOrderedInputs, noteReportedInputs } from '../lifecycle/build-inputs.ts';
import { inputsOf } from './order-inputs.ts';
import { cacheOrder, keepCache } from './caches.ts';
import { credentialsOrder, withheldCredentials } from './credentials.ts';
import { filesOrder, keepOrder } from './files.ts';
import { fromOrder } from './from-step.ts';
import { imageBuildsOrder, imageOrder } from './images.ts';
import type { BuildLimits, JobContext, JobHandler } from './job-handler.ts';
import { noteServiceData, orderServices } from './services.ts';
import { noSoftware, logWaiting, suiteSoftware } from './software.ts';
import { suiteParts } from './suite-parts.ts';
import { withheldLine } from './withheld.ts';

/** One attempt at one suite. The exit status of its command decides. */
export const runSuite: JobHandler = {
  async order(context, job, asker) {
    const parts = await suiteParts(context.trx, job.subject_id);
    if (!parts) {
      const build = await buildOf(context, job.subject_id);
      if (build) await advanceBuild(context, build, 'errored', { failure_reason: 'suite_deleted' });
      return undefined;
    }
    const {
      clone_url: repositoryUrl,
      sha,
      command,
      suite_steps: suiteSteps,
      suite_services: suiteServices,
      reports,
      commit_ref: commitRef,
      branch,
      event,
      pull_request: pullRequest,
      target_branch: targetBranch,
      from_fork: fromFork,
      fetch_ref: fetchRef,
      head_sha: headSha,
      merge_base: mergeBase,
      trace,
      image,
      root,
      builds_images: buildsImages,
      project_builds_images: projectBuildsImages,
      artifacts,
      id_tokens: _idTokens,
      api_token: _apiToken,
      project_api_token: _projectApiToken,
      ...rest
    } = parts;
    const {
      has_software: hasSoftware,
      has_variables: hasVariables,
      timeout,
      default_branch: _default,
      cache: _cache,
      cache_save: _cacheSave,
      config_digest: _digest,
      branch_secrets: branchSecrets,
      is_taken: isForSuites,
      dependencies,
      variables: requestVariables,
      ...build
    } = rest;
    const attached = { suiteId: build.suite_id, accountId: job.account_id, names: dependencies };
    const findSoftware = () => suiteSoftware(context, attached);
    const found = hasSoftware ? await findSoftware() : noSoftware;
    const given = hasVariables ? await variablesFor(context, parts) : noVariables;
    const { variables, withheld } = given;
    // A branch's builds made the files in its caches and service data. A build on an untrusted branch uses the default
    // branch's files instead.
    const keeping = (await isTrustedBranch(parts.branch, given)) ? parts : { ...parts, branch: '' };
    const mayHave = whyNoVariables(parts) === undefined;
    const chosen = {
      ...environmentOf(variables.filter(({ isSecret }) => !isSecret)),
      ...(JSON.parse(requestVariables) as Record<string, string>),
      ...environmentOf(variables.filter(({ isSecret }) => isSecret)),
      ...variablesIn(build.variant),
    };
    const findServices = () =>
      orderServices(context, {
        build: keeping,
        services: suiteServices,
        accountId: job.account_id,
        variables: mayHave ? chosen : undefined,
      });
    const ordered = await findServices();
    const lacking = [...found.missing, ...ordered.missing];
    const awaited = await findAwaited(
      context.trx,
      job.account_id,
      lacking.map(({ id }) => id),
    );
    if (awaited.length > 0) {
      await logWaiting(context, build.id, awaited);
      return { awaits: awaited.map(({ id }) => id) };
    }
    // A missing result may have been compiled between the two queries.
    const needed = found.missing.length === 0 ? found : await findSoftware();
    const { missing: missingOwn, layers, ...software } = needed;
    const services = ordered.missing.length === 0 ? ordered : await findServices();
    const missing = [...missingOwn, ...services.missing];
    const problem =
      missing.length > 0
        ? { reason: 'dependency_not_compiled', message: missing.map(notCompiled).join('\n') }
        : buildsImages === 1 && !context.imageBuilds
          ? { reason: 'image_builds_off', message: imageBuildsOff }
          : services.problem;
    const steps = stepsOf(command, suiteSteps);
    const missed = [...withheld, ...withheldCredentials(parts)];
    const lacks = withheldLine({ withheld: missed, has: chosen, steps, services: suiteServices });
    if (problem) {
      if (lacks !== undefined) await addLine(context.db, context.trx, build.id, lacks);
      await addLine(context.db, context.trx, build.id, problem.message);
      await advanceBuild(context, build, 'errored', { failure_reason: problem.reason });
      return undefined;
    }
    const begun = await filesOrder(context, job, parts, asker);
    if (!begun || 'until' in begun) return begun;
    const { filesOf, ...begins } = begun;
    const start = await fromOrder(context, build, asker);
    if ('until' in start) return start;
    const cache = await cacheOrder(context, keeping);
    // A running build is ordered again if the runner did not get the first response.
    if (build.build_state !== 'running') {
      if (!(await advanceBuild(context, build, 'running'))) return undefined;
      if (lacks !== undefined) await addLine(context.db, context.trx, build.id, lacks);
    }
    // The suite may have changed since its build was made.
    if (build.steps !== waitingSteps(suiteSteps))
      await noteSteps(
        context,
        build.id,
        steps.map(({ name }) => ({ name, state: 'waiting' })),
      );
    if (suiteSteps !== '[]') await noteCommands(context, build.id, steps);
    await openServices(
      context,
      build,
      services.orders.map(({ name }) => name),
    );
    const keep = keepOrder(context, job, build, Boolean(isForSuites));
    // Anyone who can push can write a branch's file, so the file must not decide whether a suite gets passwords.
    const hasRegistries = mayHave && (projectBuildsImages === 1 || branchSecrets === 1);
    const traceparent = traceparentOf(context, { id: build.id, trace });
    const timeoutSeconds = timeLimit(timeout, context.limits);
    const deploying = await deployVariables(context, build);
    const { HEADRACE_DEPLOY_STRATEGY: deployStrategy } = deploying;
    const credentials = await credentialsOrder(context, parts, { asker, timeoutSeconds, deployStrategy });
    const order: SuiteOrder = {
      kind: 'run_suite',
      ...(traceparent !== undefined && { isTraced: true }),
      source: { projectId: String(build.project_id), repositoryUrl },
      sha,
      ...reachedBy(fetchRef, commitRef),
      ...(headSha !== '' && { merge: { head: headSha, base: mergeBase, name: String(build.build_request_id) } }),
      isFork: fromFork === 1,
      steps,
      environment: {
        ...(traceparent !== undefined && { TRACEPARENT: traceparent }),
        ...chosen,
        CI: 'true',
        ...({
          HEADRACE: 'true',
          HEADRACE_PROJECT_ID: String(build.project_id),
          HEADRACE_BUILD_ID: String(build.id),
          HEADRACE_ATTEMPT: String(build.attempt),
          HEADRACE_SUITE: build.suite_name,
          HEADRACE_VARIANT: build.variant,
          HEADRACE_COMMIT: sha,
          HEADRACE_REF: commitRef,
          HEADRACE_BRANCH: branch,
          HEADRACE_EVENT: event,
          HEADRACE_PULL_REQUEST: pullRequest === null ? '' : String(pullRequest),
          HEADRACE_TARGET_BRANCH: targetBranch,
          ...(headSha !== '' && { HEADRACE_HEAD_SHA: headSha, HEADRACE_MERGE_BASE: mergeBase }),
        } satisfies BuildVariables),
        ...deploying,
      },
      secrets: variables.filter(({ isSecret }) => isSecret).map(({ content }) => content),
      ...credentials,
      limits: { ...context.limits, timeoutSeconds },
      ...(artifacts !== '[]' && { artifacts: { globs: JSON.parse(artifacts) as string[], ...context.artifacts } }),
      ...(cache && { cache }),
      ...begins,
      ...start,
      ...(build.resume === 1 && steps.length > 1 && { resume: { mostBytes: context.unpacked.bytes } }),
      ...(keep && { keep }),
      ...(reports !== '[]' && { reports: JSON.parse(reports) as string[] }),
      ...software,
      ...imageOrder(image, job.account_id),
      ...(services.orders.length > 0 && { services: services.orders }),
      ...(root !== null && { root: root === 1 }),
      ...(buildsImages === 1 && {
        imageBuilds: await imageBuildsOrder(context, hasRegistries ? job.account_id : null),
      }),
    };
    const inputs = inputsOf(context.vault, order, { build: parts, layers, filesOf });
    await noteOrderedInputs(context.trx, build.id, inputs);
    return order;
  },

  outcomes: [
    'exited',
    'launch_failed',
    'timed_out',
    'killed',
    'cancelled',
    'unfetchable',
    'unrunnable',
    'store_away',
    'files_gone',
  ],

  async settle(context, job, outcome, { output, stepStates, services, usage, inputs, isInLog }) {
    if (outcome.kind === 'files_gone' && job.cancelled === 0) return loseFiles(context, job, outcome);
    if (outcome.kind === 'cancelled') await dropOutputs(context, job);
    const [state, ending] = endingOf(outcome);
    if (outcome.kind === 'exited' && outcome.cache && job.cancelled === 0)
      await keepCache(context, { buildId: job.subject_id, stored: job, state }, outcome.cache);
    await noteServiceData(context, job.subject_id, services ?? []);
    if (inputs) await noteReportedInputs(context, job.subject_id, inputs);
    await endBuild(context, { id: job.subject_id, job, isInLog }, state, {
      ...ending,
      output,
      steps: stepStates,
      services,
      usage,
    });
  },

  async lose(context, job) {
    const build = await buildOf(context, job.subject_id);
    await dropOutputs(context, job); // the next attempt stores its own
    if (build && job.cancelled) await advanceBuild(context, build, 'cancelled');
    else if (build) await loseBuild(context, build, job);
    return { retry: false }; // the next attempt has its own build and job
  },
};

async function dropOutputs({ trx }: JobContext, { subject_id: build }: ClaimedJob): Promise<void> {
  await dropArtifacts(trx, build);
  await dropSummary(trx, build);
}

/** A suite with a command has one step. */
function stepsOf(command: string, steps: string): StepOrder[] {
  if (steps === '[]') return [{ name: 'command', command, when: 'passed' }];
  return JSON.parse(steps) as StepOrder[];
}

/** The runner cannot get the files that the build starts with. The next attempt finds that they are gone. */
async function loseFiles(context: JobContext, job: ClaimedJob, { build: lender }: { build?: string }): Promise<void> {
  const build = await buildOf(context, job.subject_id);
  if (!build) return;
  await holdForBuilds(context, build.build_request_id, build.commit_id); // before the files (db/lock-order.ts)
  const gone = lender === undefined ? build.files_of : lenders(build).find((one) => String(one) === lender);
  if (gone !== undefined && gone !== null) await forgetKept(context.trx, gone);
  await loseBuild(context, build, job, 'files_gone');
}

function timeLimit(timeout: number, { timeoutSeconds: most }: BuildLimits): number {
  return timeout === 0 ? most : Math.min(timeout, most);
}

type Ending = [state: BuildState, details: { exit_status?: number; failure_reason?: string }];

function endingOf(outcome: Outcome): Ending {
  switch (outcome.kind) {
    case 'exited':
      return [outcome.status === 0 ? 'passed' : 'failed', { exit_status: outcome.status }];
    case 'launch_failed':
      return ['errored', { failure_reason: 'launch_failed' }];
    case 'timed_out':
      return ['timed_out', { failure_reason: 'timed_out' }];
    case 'killed':
      return ['failed', { failure_reason: outcome.reason }];
    case 'cancelled':
    case 'store_away': // it was cancelled before it could be postponed
    case 'files_gone':
      return ['cancelled', {}];
    case 'unfetchable':
    case 'unrunnable':
      return ['errored', { failure_reason: outcome.reason }];
    case 'cut_short':
      // A log that is too long is the command's fault, but a full disk is not.
      return [outcome.reason === 'log_too_long' ? 'failed' : 'errored', { failure_reason: outcome.reason }];
    case 'fetched':
    case 'checked':
    case 'compiled':
    case 'packed':
    case 'not_packed':
    case 'uncompilable':
    case 'pushed':
    case 'refused':
    case 'lost':
      throw new Error(`a suite does not end as ${outcome.kind}`);
    default:
      return outcome satisfies never;
  }
}

/** Fetches bring branches and tags. Any other ref must be named, because not every host serves a bare SHA. */
function reachedBy(...refs: string[]): { fetchRef?: string } {
  const fetchRef = refs.find((ref) => /^refs\/(?!heads\/|tags\/)/.test(ref));
  return fetchRef === undefined ? {} : { fetchRef };
}

function notCompiled({ name }: Layer): string {
  return `The dependency ${name} is not compiled, so this suite cannot run. Compile it, or detach it from the suite.`;
}

async function buildOf({ trx }: JobContext, id: bigint): Promise<BuildRow | undefined> {
  return trx.selectFrom('builds').selectAll().where('id', '=', id).executeTakeFirst();
}

/** Only for the build that deploys, not for the suites that it needs. */
async function deployVariables({ trx }: JobContext, build: Pick<BuildRow, 'deploy_id' | 'suite_id'>) {
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
  } satisfies BuildVariables;
}
