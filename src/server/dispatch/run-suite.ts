import type { BuildRow } from '../db/schema.ts';
import { holdForBuilds } from '../lifecycle/apply-rollup.ts';
import { dropArtifacts } from '../outputs/artifacts.ts';
import { dropSummary } from '../outputs/summaries.ts';
import { openServices } from '../lifecycle/build-services.ts';
import { noteCommands, noteSteps, waitingSteps } from '../lifecycle/build-steps.ts';
import { advanceBuild, endBuild, loseBuild } from '../lifecycle/builds.ts';
import { lenders } from '../lifecycle/lent-files.ts';
import { forgetKept } from '../lifecycle/kept-builds.ts';
import type { Layer } from '../software/software.ts';
import type { BuildState } from '../lifecycle/states.ts';
import type { Outcome, SuiteOrder } from '../../shared/protocol/index.ts';
import type { ClaimedJob } from '../queue/leases.ts';
import { addLine } from '../streams/logs.ts';
import { findAwaited } from './awaited.ts';
import { noteOrderedInputs } from '../lifecycle/build-inputs.ts';
import { joinGroup } from '../lifecycle/held-back.ts';
import { inputsOf } from './order-inputs.ts';
import { cacheOrder, cachePart, keepCache } from './caches.ts';
import { credentialsOrder } from './credentials.ts';
import { filesOrder, keepOrder } from './files.ts';
import { fromOrder } from './from-step.ts';
import type { JobContext, JobHandler } from './job-handler.ts';
import { digestsAtStart, noteReported } from './reuse-inputs.ts';
import { noteServiceData } from './services.ts';
import { logWaiting } from './software.ts';
import { prepareSuite, type Prepared } from './suite-order.ts';
import { suiteParts, type SuiteParts } from './suite-parts.ts';

/** One attempt at one suite. The exit status of its command decides. */
export const runSuite: JobHandler = {
  async order(context, job, asker) {
    const parts = await suiteParts(context.trx, job.subject_id);
    if (!parts) {
      const build = await buildOf(context, job.subject_id);
      if (build) await advanceBuild(context, build, 'errored', { failure_reason: 'suite_deleted' });
      return undefined;
    }
    const suite = await whenCompiled(context, job, parts);
    if ('awaits' in suite) return suite;
    const { keeping, lacks, layers, deployStrategy, order: basic } = suite;
    const { has_software: _software, has_variables: _variables, is_taken: isForSuites, ...build } = parts;
    const problem = suite.missing.length > 0 ? notCompiled(suite.missing) : suite.problem;
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
    const isCheck = build.checks_id !== null;
    if (isCheck && !(await joinGroupOfReused(context, parts)))
      return { location: null, until: Date.now() + checkAgainMs };
    const cache = isCheck ? undefined : await cacheOrder(context, keeping);
    // A running build is ordered again if the runner did not get the first response.
    if (build.build_state !== 'running') {
      if (!(await advanceBuild(context, build, 'running'))) return undefined;
      if (lacks !== undefined) await addLine(context.db, context.trx, build.id, lacks);
    }
    // The suite may have changed since its build was made.
    if (build.steps !== waitingSteps(build.suite_steps))
      await noteSteps(
        context,
        build.id,
        basic.steps.map(({ name }) => ({ name, state: 'waiting' })),
      );
    if (build.suite_steps !== '[]') await noteCommands(context, build.id, basic.steps);
    await openServices(
      context,
      build,
      (basic.services ?? []).map(({ name }) => name),
    );
    const keep = keepOrder(context, job, build, Boolean(isForSuites));
    const { timeoutSeconds } = basic.limits;
    const order: SuiteOrder = {
      ...basic,
      ...(await credentialsOrder(context, parts, { asker, timeoutSeconds, deployStrategy })),
      ...(cache && { cache }),
      ...begins,
      ...start,
      ...(build.resume === 1 && basic.steps.length > 1 && { resume: { mostBytes: context.unpacked.bytes } }),
      ...(keep && { keep }),
    };
    const inputs = inputsOf(
      context.vault,
      { ...order, ...cachePart(context, parts) },
      { build: parts, layers, filesOf },
    );
    const isOwn = suite.hasOwnData || (cache?.found !== undefined && cache.found.branch !== parts.default_branch);
    const digests = digestsAtStart(parts, inputs, { origin: keeping, isOwn });
    await noteOrderedInputs(context.trx, build.id, inputs, digests);
    return isCheck ? withoutData(order) : order;
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
    if (inputs) await noteReported(context, job.subject_id, inputs);
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

const checkAgainMs = 30_000;

async function joinGroupOfReused(context: JobContext, check: SuiteParts): Promise<boolean> {
  const reused = context.trx.selectFrom('builds').select('concurrency_group').where('id', '=', check.checks_id);
  return joinGroup(context, check, (await reused.executeTakeFirst())?.concurrency_group ?? '');
}

function withoutData(order: SuiteOrder): SuiteOrder {
  const services = order.services?.map(({ kept: _kept, saves: _saves, ...service }) => service);
  return { ...order, ...(services && { services }) };
}

async function dropOutputs({ trx }: JobContext, { subject_id: build }: ClaimedJob): Promise<void> {
  await dropArtifacts(trx, build);
  await dropSummary(trx, build);
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
    case 'inputs':
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

/** A missing result may have been compiled between two queries, so the second look decides. */
async function whenCompiled(
  context: JobContext,
  job: ClaimedJob,
  parts: SuiteParts,
): Promise<Prepared | { awaits: bigint[] }> {
  const found = await prepareSuite(context, job, parts);
  if (found.missing.length === 0) return found;
  const lacking = found.missing.map(({ id }) => id);
  const awaited = await findAwaited(context.trx, job.account_id, lacking);
  if (awaited.length === 0) return prepareSuite(context, job, parts);
  await logWaiting(context, parts.id, awaited);
  return { awaits: awaited.map(({ id }) => id) };
}

function notCompiled(layers: readonly Layer[]): NonNullable<Prepared['problem']> {
  const lines = layers.map(
    ({ name }) =>
      `The dependency ${name} is not compiled, so this suite cannot run. Compile it, or detach it from the suite.`,
  );
  return { reason: 'dependency_not_compiled', message: lines.join('\n') };
}

async function buildOf({ trx }: JobContext, id: bigint): Promise<BuildRow | undefined> {
  return trx.selectFrom('builds').selectAll().where('id', '=', id).executeTakeFirst();
}
