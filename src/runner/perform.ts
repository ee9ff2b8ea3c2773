import { join } from 'node:path';
import { isNoSpace } from '../shared/lib/disk-reserve.ts';
import { messageOf } from '../shared/lib/error-code.ts';
import type {
  FinishReport,
  KeptFiles,
  Link,
  LogPart,
  Order,
  Outcome,
  RunnerInput,
  StepState,
  UsageReport,
  Work,
} from '../shared/protocol/index.ts';
import { checkConnection } from './check-connection.ts';
import { checkInputs } from './check-inputs.ts';
import { compileDependency } from './compile-dependency.ts';
import { StoreAwayError } from './failures.ts';
import { fetchCommit } from './fetch-commit.ts';
import type { RunnerDeps, Task } from './job-runner.ts';
import { createLogSender } from './log-sender.ts';
import { packFiles } from './pack-files.ts';
import { pushDeploy } from './push-deploy.ts';
import { runSuite } from './run-suite.ts';
import { createServiceSender } from './services/service-sender.ts';
import { createStepSender } from './step-sender.ts';
import { spanTimes } from './span-times.ts';

export const cancelled = new Error('the job was cancelled');
export const claimLost = new Error('the claim expired, or the job is no longer needed');

/** The job's output is no longer stored. */
class CutShort extends Error {
  readonly outcome: Outcome;

  constructor(outcome: Outcome) {
    super('the output of the job is no longer stored');
    this.outcome = outcome;
  }
}

export interface Performing {
  link: Link;
  deps: RunnerDeps;
  /** For logs that do not fit in memory. */
  spool: string;
  /** Aborts this job. The signal's reason decides the outcome. */
  work: AbortController;
  /** Aborted when the runner ends. */
  ending: AbortSignal;
}

/** Performs an order and sends its log. Undefined if the server no longer wants the report. */
export async function perform(
  order: Order,
  { link, deps, spool, work, ending }: Performing,
): Promise<FinishReport | undefined> {
  const onLost = (error: unknown): void =>
    work.abort(new CutShort({ kind: 'lost', message: `the server rejected the log: ${messageOf(error)}` }));
  const lasting = AbortSignal.any([ending, onlyFor(work.signal, claimLost)]);
  const sender = createLogSender({
    link,
    claim: order.claim,
    offset: order.logOffset,
    limit: order.logLimit,
    spillFile: join(spool, order.claim),
    disk: deps.disk,
    signal: lasting,
    onGone: () => work.abort(claimLost),
    onCut: (reason) => work.abort(new CutShort({ kind: 'cut_short', reason })),
    onLost,
  });
  const stepSender = createStepSender({ link, claim: order.claim, signal: AbortSignal.any([ending, work.signal]) });
  const serviceSender = createServiceSender({
    link,
    claim: order.claim,
    limit: order.logLimit,
    spillFile: (name) => join(spool, `${order.claim}.${name}`),
    disk: deps.disk,
    signal: lasting,
    onGone: () => work.abort(claimLost),
    onLost,
  });
  const writeLog = (output: Buffer | string): void | Promise<void> => sender.write(bytesOf(output));
  try {
    const spans = spanTimes();
    let kept: KeptFiles | undefined;
    const onKept = (files: KeptFiles): void => void (kept = files);
    let inputs: Promise<RunnerInput[]> | undefined;
    const onInputs = (known: Promise<RunnerInput[]>): void => void (inputs = known.catch(() => []));
    let isWaiting = false;
    const onWaiting = (): void => void (isWaiting = true);
    const output: Partial<LogPart> = {};
    const onOutput = (at: keyof LogPart): void => void (output[at] = sender.size);
    const signal = AbortSignal.any([ending, work.signal]);
    let stepStates: StepState[] | undefined;
    const onSteps = (states: readonly StepState[]): void => {
      stepStates = [...states];
      stepSender.note(states);
    };
    const { logLines } = order;
    const { openLog, note: onServices } = serviceSender;
    let usage: UsageReport | undefined;
    const onUsage = (used: UsageReport): void => void (usage = used);
    const about = { onSteps, openLog, onServices, onInputs, onKept, onWaiting, onOutput, onUsage };
    const task: Task = { id: order.claim, writeLog, signal, spans, logLines, ...about };
    const done = await outcomeOf(deps, order, task, work.signal);
    await stepSender.end();
    if (work.signal.reason === claimLost || ending.aborted) return undefined;
    const traced = 'isTraced' in order.work && order.work.isTraced ? { spans: spans.report() } : {};
    const states = await serviceSender.end();
    const logSize = await sender.end();
    const outcome = orCutShort(done, work.signal);
    const left = {
      ...(stepStates && { stepStates }),
      ...(states.length > 0 && { services: states }),
      ...(inputs && { inputs: await inputs }),
      ...(kept && { kept }),
      ...(isWaiting ? { uploads: true } : {}),
      ...(isWhole(output) && { output }),
      ...(usage && { usage }),
    };
    return { claim: order.claim, outcome, logSize, ...traced, ...left };
  } finally {
    await stepSender.end();
    await serviceSender.close();
    await sender.close();
  }
}

async function outcomeOf(deps: RunnerDeps, { work }: Order, task: Task, calledOff: AbortSignal): Promise<Outcome> {
  try {
    switch (work.kind) {
      case 'fetch_commit':
        return await fetchCommit(deps, work, task);
      case 'run_suite':
        return await runSuite(deps, work, task);
      case 'compile_dependency':
        return await compileDependency(deps, work, task);
      case 'push_deploy':
        return await pushDeploy(deps, work, task);
      case 'check_connection':
        return await checkConnection(deps, work, task);
      case 'pack_files':
        return await packFiles(deps, work, task);
      case 'check_inputs':
        return await checkInputs(deps, work, task);
      default:
        return { kind: 'lost', message: `this runner is too old for ${(work satisfies never as Work).kind}` };
    }
  } catch (error) {
    if (calledOff.reason === cancelled) return { kind: 'cancelled' };
    if (isNoSpace(error)) return { kind: 'cut_short', reason: 'disk_full' };
    if (error instanceof StoreAwayError) return { kind: 'store_away' };
    return { kind: 'lost', message: messageOf(error) };
  }
}

function isWhole(part: Partial<LogPart>): part is LogPart {
  return part.from !== undefined && part.to !== undefined;
}

/** A job that was cut short lost output or results, even if it ended normally. A push stays, as it cannot be undone. */
function orCutShort(outcome: Outcome, { reason }: AbortSignal): Outcome {
  if (!(reason instanceof CutShort) || outcome.kind === 'pushed') return outcome;
  return reason.outcome;
}

function bytesOf(output: Buffer | string): Buffer {
  return typeof output === 'string' ? Buffer.from(output) : output;
}

function onlyFor(signal: AbortSignal, reason: unknown): AbortSignal {
  const follower = new AbortController();
  signal.addEventListener('abort', () => {
    if (signal.reason === reason) follower.abort(reason);
  });
  return follower.signal;
}
