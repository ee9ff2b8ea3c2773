import { setTimeout as delay } from 'node:timers/promises';
import { orAborted } from '../../shared/lib/or-aborted.ts';
import { randomName } from '../../shared/lib/random-name.ts';
import type { ServiceOrder } from '../../shared/protocol/index.ts';
import type { InImage, TakenImage } from '../images/images.ts';
import { quote } from '../../shared/lib/shell-word.ts';
import {
  sandboxPaths,
  type Sidecars,
  type Ended,
  type Job,
  type JobLayers,
  type Sidecar,
  type Step,
} from '../sandbox/types.ts';
import { CannotRunError } from '../cannot-run.ts';
import { openProbe, type Probe } from './probe.ts';
import type { ServiceLog } from './service-log.ts';

export interface RunningService {
  /** Resolves when the service is ready. Rejects with a CannotRunError if it cannot become ready. */
  readonly ready: Promise<void>;
  readonly ended: Promise<Ended>;
  /** Requests the service's end and waits. Resolves with false if it did not end in time. Then it continues to run. */
  stop(): Promise<boolean>;
}

export type ServiceImage = Pick<TakenImage, 'configuration' | 'digest'> & { inside: InImage };

export interface ServiceParts {
  order: ServiceOrder;
  image: ServiceImage | undefined;
  environment: Record<string, string>;
  mounts: NonNullable<Job['mounts']>;
  limits: Job['limits'];
  log: ServiceLog;
  secrets: readonly string[];
  signal: AbortSignal;
}

/** The longest timer. A service needs no time limit, because it ends with its build. */
const foreverMs = 2 ** 31 - 1;
/** Time for a service to end on request. A database writes its data then. */
export const graceMs = 30_000;
/** Growing pauses between runs of `ready_command`, because each run slows down the service's start. */
const probePauseMs = { first: 10, longest: 50 };
const checkEveryMs = 10;

export function runService(
  sidecars: Sidecars,
  parts: ServiceParts,
  { layers, onLeft }: { layers?: Promise<JobLayers>; onLeft?: Job['onLeft'] } = {},
): RunningService {
  const { order, image, environment, mounts, limits, log } = parts;
  const stopping = new AbortController();
  const signal = AbortSignal.any([parts.signal, stopping.signal]);
  const begun = Promise.withResolvers<void>();
  const probed = Promise.withResolvers<void>();
  const probe = openProbe(parts.secrets);
  let pauseMs = probePauseMs.first;
  const job: Job = {
    id: randomName(),
    steps: stepsOf(order, image),
    next: async ({ at, status }) => {
      if (at === 1) await probe.ended(status);
      if (at === 1 && status !== 0) {
        await delay(pauseMs, undefined, { signal }).catch(() => {});
        pauseMs = Math.min(2 * pauseMs, probePauseMs.longest);
      }
      if (at === 1 && status === 0) probed.resolve();
      if (at === 2 || order.readyCommand === '') return undefined;
      return { at: at === 1 && status === 0 ? 2 : 1, environment: {} };
    },
    onStep: (at, what) => {
      if (at === 0 && what === 'start') begun.resolve();
    },
    environment,
    workspace: { empty: true },
    onLeft,
    mounts,
    ...image?.inside,
    limits: { ...limits, timeoutMs: foreverMs },
    // A service that does not end on request can still serve its build. It ends with the build.
    graceMs: foreverMs,
    output: (chunk) => log.push(chunk),
    aside: (chunk) => probe.hear(chunk),
    signal,
  };
  const running = sidecars.start(job, layers);
  const ended = afterFlush(running.ended, log);
  ended.catch(() => {}); // `ready` and `stop` report it
  const ready = becomesReady({ parts, running, ended, layers, begun: begun.promise, probe, probed: probed.promise });
  ready.catch(() => {}); // it may reject before a caller awaits it
  return {
    ready,
    ended,
    async stop() {
      stopping.abort();
      const over = new AbortController();
      try {
        const late = delay(graceMs, false, { signal: over.signal });
        return await orAborted(Promise.race([ended.then(() => true), late]), parts.signal);
      } finally {
        over.abort();
      }
    },
  };
}

async function afterFlush(running: Promise<Ended>, log: ServiceLog): Promise<Ended> {
  try {
    return await running;
  } finally {
    await log.flush();
  }
}

/** If there is a `ready_command`, the service runs as a background step. */
function stepsOf(order: ServiceOrder, image: ServiceImage | undefined): Step[] {
  const service = { name: 'service', ...whatRuns(order, image) };
  if (order.readyCommand === '') return [service];
  return [
    { ...service, kind: 'background' },
    { name: 'ready', command: inDirectory(image, order.readyCommand), kind: 'probe' },
    { name: 'await', command: '', kind: 'await' },
  ];
}

export function isAsItIs({ command, readyCommand }: ServiceOrder): boolean {
  return command === '' && readyCommand === '';
}

function whatRuns({ name, command }: ServiceOrder, image: ServiceImage | undefined): Omit<Step, 'name'> {
  if (command !== '') return { command: inDirectory(image, command) };
  const { entrypoint = [], command: args = [] } = image?.configuration ?? {};
  const all = [...entrypoint, ...args];
  if (all.length === 0)
    throw new CannotRunError('service_not_ready', `The service ${name} has no command, and neither has its image.`);
  if (image?.configuration.lacksShell)
    return { command: '', program: { argv: all, directory: image.configuration.directory } };
  return { command: inDirectory(image, `exec ${all.map(quote).join(' ')}`) };
}

/** Creates the directory if needed, because an image may name one that it does not have. */
function inDirectory(image: ServiceImage | undefined, command: string): string {
  const directory = quote(image?.configuration.directory ?? sandboxPaths.workspace);
  return `cd ${directory} 2>/dev/null || { mkdir -p ${directory} && cd ${directory}; }\n${command}`;
}

interface Becoming {
  parts: ServiceParts;
  running: Sidecar;
  ended: Promise<Ended>;
  layers: Promise<JobLayers> | undefined;
  begun: Promise<void>;
  probe: Probe;
  probed: Promise<void>;
}

async function becomesReady({ parts, running, ended, layers, begun, probe, probed }: Becoming): Promise<void> {
  await layers; // the service cannot start earlier, so its timeout begins here
  const { order, image, log, signal } = parts;
  const { name, readyPort, readyCommand, readyTimeoutSeconds: seconds } = order;
  const port = readyPort > 0 || readyCommand !== '' ? readyPort : (image?.configuration.ports[0] ?? 0);
  const late = AbortSignal.timeout(seconds * 1000);
  const waiting = new AbortController();
  let isListening = false;
  const listens = async (): Promise<void> => {
    if (port === 0) return void (isListening = true);
    for (let began = performance.now(); !(await running.listens(port)); began = performance.now()) {
      // With thousands of processes a check takes long, so pauses are at least four times as long as checks.
      const pauseMs = Math.max(checkEveryMs, 4 * (performance.now() - began));
      await delay(pauseMs, undefined, { signal: waiting.signal }).catch(() => {});
      if (waiting.signal.aborted) return;
    }
    isListening = true;
  };
  const missing = (): string => {
    const status = probe.status();
    const listening = isListening ? `it listens at port ${port}` : `it does not listen at port ${port}`;
    const why = [
      ...(port === 0 ? [] : [listening]),
      ...(isProbed()
        ? []
        : [status === undefined ? 'ready_command did not end' : `ready_command ended with status ${status}`]),
    ];
    return why.length > 0 ? `: ${why.join(', and ')}` : '';
  };
  const isProbed = (): boolean => readyCommand === '' || probe.status() === 0;
  const isOver = ended.then((how) => {
    throw new CannotRunError('service_not_ready', `The service ${name} ${endInWords(how)} before it was ready.`);
  });
  try {
    const holds = Promise.all([begun, ...(readyCommand === '' ? [] : [probed]), listens()]);
    await orAborted(Promise.race([holds, isOver]), AbortSignal.any([late, signal]));
  } catch (error) {
    signal.throwIfAborted();
    const isLate = late.aborted && !(error instanceof CannotRunError);
    const reason = isLate
      ? `The service ${name} was not ready within ${seconds} seconds${missing()}.`
      : (error as Error).message;
    if (!isLate && !(error instanceof CannotRunError)) throw error;
    await log.flush();
    const unheard = isLate && !isProbed() ? `\n${probe.lastLines()}` : '';
    throw new CannotRunError('service_not_ready', `${reason}${withLastLines(log)}${unheard}`);
  } finally {
    waiting.abort();
  }
}

export function endInWords({ exitStatus, reason }: Ended): string {
  if (reason === 'out_of_memory') return 'was killed for lack of memory (the build and its services share one limit)';
  return exitStatus === null ? `was ended (${reason?.replaceAll('_', ' ')})` : `ended with status ${exitStatus}`;
}

export function withLastLines(log: ServiceLog): string {
  const lines = log.lastLines();
  return lines === '' ? ' It printed nothing.' : ` Its last lines:\n${lines}`;
}
