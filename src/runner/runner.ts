import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { isNoSpace } from '../lib/disk-reserve.ts';
import { randomName } from '../lib/random-name.ts';
import type { CutReason, Link, Order, Outcome, Work } from '../protocol.ts';
import { checkConnection } from './check-connection.ts';
import { compileDependency } from './compile-dependency.ts';
import { fetchCommit } from './fetch-commit.ts';
import { placesOf } from './leftovers.ts';
import { createLogSender } from './log-sender.ts';
import { pushDeploy } from './push-deploy.ts';
import { untilAnswered } from './retry.ts';
import { runSuite } from './run-suite.ts';
import { forgetProjects, tidyMirrors } from './upkeep.ts';
import type { Task, RunnerServices } from './job-runner.ts';

export interface RunnerOptions {
  link: Link;
  /** A folder of the runner's own, for logs on their way. */
  folder: string;
  /** What the work is done with; closed when the runner ends. */
  services: RunnerServices;
  concurrency: number;
  log: (message: string) => void;
  /** Does one piece of work and ends. */
  once?: boolean;
  /** How often it looks whether there is time to tidy up. */
  upkeepEveryMs?: number;
}

export interface Runner {
  /** Resolves when the runner has ended, by itself or because it was told to. */
  done: Promise<void>;
  /** Whether it has work at the moment. */
  isBusy(): boolean;
  /** When a server was last heard of, by the process's own clock. */
  heardAt(): number;
  /** Takes no more work, gives up what it has, and leaves nothing behind. */
  stop(): Promise<void>;
}

/** Why a piece of work is ended before its time. */
const cancelled = new Error('it was called off');
const notOurs = new Error('somebody else has it, or nobody wants it any more');
const stopped = new Error('the runner was stopped');

/** No more of what the work says is taken. */
class CutShort extends Error {
  readonly reason: CutReason;

  constructor(reason: CutReason) {
    super(`it was cut short: ${reason}`);
    this.reason = reason;
  }
}

export async function startRunner(options: RunnerOptions): Promise<Runner> {
  const { link, folder, services, log } = options;
  await mkdir(folder, { recursive: true, mode: 0o711 });
  const { spool } = placesOf(folder);
  await mkdir(spool, { recursive: true, mode: 0o700 });

  const ending = new AbortController();
  const { signal } = ending;
  const claims = new Map<string, AbortController>();
  let heardAt = performance.now();
  let changed = Promise.withResolvers<void>();
  const touch = (): void => {
    changed.resolve();
    changed = Promise.withResolvers<void>();
  };
  let trouble = '';
  const heard = <T>(answer: T): T => {
    heardAt = performance.now();
    trouble = '';
    return answer;
  };
  /** Said once, not at every try. */
  const away = (error: unknown): void => {
    if (messageOf(error) !== trouble)
      log(`the server is away, and is asked again until it answers: ${messageOf(error)}`);
    trouble = messageOf(error);
  };

  /** Answers the next order, if the server had one at hand. */
  const perform = async (order: Order, nextClaim: string): Promise<Order | undefined> => {
    const work = new AbortController();
    claims.set(order.claim, work);
    touch();
    const whole = AbortSignal.any([signal, work.signal]);
    const sender = createLogSender({
      link,
      claim: order.claim,
      offset: order.logOffset,
      limit: order.logLimit,
      spillFile: join(spool, order.claim),
      disk: services.disk,
      signal: AbortSignal.any([signal, onlyFor(work.signal, notOurs)]),
      onGone: () => work.abort(notOurs),
      onCut: (reason) => work.abort(new CutShort(reason)),
    });
    try {
      const task: Task = { id: order.claim, say: (output) => sender.write(bytesOf(output)), signal: whole };
      const told = await outcomeOf(services, order, task, work.signal);
      if (work.signal.reason === notOurs || signal.aborted) return undefined;
      const logSize = await sender.end();
      const outcome = orCutShort(told, work.signal);
      const report = { claim: order.claim, outcome, logSize, next: options.once ? undefined : nextClaim };
      const { next } = await untilAnswered(signal, () => link.finish(report, signal).then(heard));
      return next;
    } catch (error) {
      if (!signal.aborted && work.signal.reason !== notOurs) log(`work was given up: ${messageOf(error)}`);
      return undefined;
    } finally {
      claims.delete(order.claim);
      touch();
      await sender.close();
    }
  };

  const executor = async (): Promise<void> => {
    let order: Order | undefined;
    let claim = randomName();
    while (!signal.aborted) {
      order ??= await untilAnswered(signal, () => link.next(claim, signal).then(heard), away);
      if (!order) continue;
      claim = randomName();
      order = await perform(order, claim);
      if (options.once) return;
    }
  };

  /** Keeps the claims and hears what is to be done about them. */
  const attend = async (): Promise<void> => {
    while (!signal.aborted) {
      const { promise } = changed;
      if (claims.size === 0) {
        await Promise.race([promise, aborted(signal)]);
        continue;
      }
      const words = await untilAnswered(signal, () => link.extend([...claims.keys()], signal).then(heard), away);
      let isForOthers = false;
      for (const [claim, word] of Object.entries(words)) {
        const work = claims.get(claim);
        work?.abort(word === 'cancel' ? cancelled : notOurs);
        isForOthers ||= !work && word === 'cancel';
      }
      // What is called off is still on its way here, or a runner with the same token has it: it would be said again at once.
      if (isForOthers) await Promise.race([promise, pause(1000, undefined, { signal })]);
    }
  };

  const attending = attend().catch((error: unknown) => ending.abort(error)); // ended by the signal, or refused
  const isBusy = (): boolean => claims.size > 0;
  const tidying = tidyMirrors({ mirrors: services.mirrors, isBusy, signal, log, lookEveryMs: options.upkeepEveryMs });
  const forgetting = forgetProjects({ ...services, link, signal, log, everyMs: options.upkeepEveryMs });
  const executors = Array.from({ length: options.once ? 1 : options.concurrency }, () => executor());
  const done = (async () => {
    const results = await Promise.allSettled(executors);
    ending.abort(stopped);
    touch();
    await attending;
    await tidying;
    await forgetting;
    await services.close();
    const failure = results.find((result) => result.status === 'rejected');
    if (failure && failure.reason !== stopped) throw failure.reason;
  })();
  return {
    done,
    isBusy,
    heardAt: () => heardAt,
    async stop() {
      ending.abort(stopped);
      await done;
    },
  };
}

async function outcomeOf(
  services: RunnerServices,
  { work }: Order,
  task: Task,
  calledOff: AbortSignal,
): Promise<Outcome> {
  try {
    switch (work.kind) {
      case 'fetch_commit':
        return await fetchCommit(services, work, task);
      case 'run_suite':
        return await runSuite(services, work, task);
      case 'compile_dependency':
        return await compileDependency(services, work, task);
      case 'push_deploy':
        return await pushDeploy(services, work, task);
      case 'check_connection':
        return await checkConnection(services, work, task);
      default:
        return { kind: 'lost', message: `this runner is too old for ${(work satisfies never as Work).kind}` };
    }
  } catch (error) {
    if (calledOff.reason === cancelled) return { kind: 'cancelled' };
    if (isNoSpace(error)) return { kind: 'cut_short', reason: 'disk_full' };
    return { kind: 'lost', message: messageOf(error) };
  }
}

/** However quickly the work ended by itself: what it said or made is not all there. A push cannot be undone. */
function orCutShort(outcome: Outcome, { reason }: AbortSignal): Outcome {
  if (!(reason instanceof CutShort) || outcome.kind === 'pushed') return outcome;
  return { kind: 'cut_short', reason: reason.reason };
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function bytesOf(output: Buffer | string): Buffer {
  return typeof output === 'string' ? Buffer.from(output) : output;
}

/** A signal that follows another for one reason alone. */
function onlyFor(signal: AbortSignal, reason: unknown): AbortSignal {
  const follower = new AbortController();
  signal.addEventListener('abort', () => {
    if (signal.reason === reason) follower.abort(reason);
  });
  return follower.signal;
}

async function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  signal.addEventListener('abort', () => resolve(), { once: true });
  await promise;
}
