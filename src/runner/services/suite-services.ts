import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { randomName } from '../../shared/lib/random-name.ts';
import type { ImageOrder, ServiceOrder, ServiceState } from '../../shared/protocol/index.ts';
import { usualHosts } from '../api-access.ts';
import { CannotRunError } from '../cannot-run.ts';
import type { Taken } from '../dependency-cache.ts';
import { inImage, type TakenImage } from '../images/images.ts';
import type { RunnerDeps } from '../job-runner.ts';
import type { Sidecars, Job } from '../sandbox/types.ts';
import { findable } from '../search-paths.ts';
import { hideIn } from '../masked-log.ts';
import { startPrepared, type BegunWith, type BuildJob, type PreparedOptions } from './prepared-service.ts';
import {
  isAsItIs,
  endInWords,
  withLastLines,
  type RunningService,
  type ServiceImage,
  type ServiceParts,
} from './run-service.ts';
import { serviceLog, type LogSink, type ServiceLog } from './service-log.ts';

/** A build's services share its network. A hosts file in the build and each service maps every name to loopback. */
export interface SuiteServices extends AsyncDisposable {
  imageDigests: Record<string, string>;
  mounts: NonNullable<Job['mounts']>;
  /** The data that the services began with, by service name. */
  data: Record<string, BegunWith>;
  /** Aborted if a service ends while steps run. The other services continue. */
  signal: AbortSignal;
  /** Resolves when all services are ready. The commands that prepare services use the build's `job`. */
  start(sidecars: Sidecars, job: BuildJob): Promise<void>;
  over: () => void;
  /** Set if a service ended the build. */
  failure(): CannotRunError | undefined;
  hide(secrets: readonly string[]): Promise<void>;
}

export interface ServicesOptions {
  takeImage: (order: ImageOrder, service: { name: string; isAsItIs: boolean }) => Promise<TakenImage>;
  orders: readonly ServiceOrder[];
  project: string;
  /** Whether this build, or a build whose files it begins with, may have had secrets. */
  hadSecrets: boolean;
  /** In a shell: the data that the build's services began with. */
  again?: PreparedOptions['again'];
  limits: Job['limits'];
  secrets: readonly string[];
  openLog: (name: string) => LogSink;
  print: (text: string) => Promise<void>;
  onStates?: ((states: readonly ServiceState[]) => void) | undefined;
  /** The build's start by `performance.now()`. Times are relative to it. */
  began?: number;
  /** Further lines of the hosts file. */
  moreHosts?: string | undefined;
  signal: AbortSignal;
}

type Using = Pick<
  RunnerDeps,
  'sandboxes' | 'dependencyCache' | 'operatorVariables' | 'scratch' | 'serviceData' | 'log'
>;

interface Service {
  order: ServiceOrder;
  log: ServiceLog;
  state: ServiceState;
}

export async function openSuiteServices(using: Using, options: ServicesOptions): Promise<SuiteServices> {
  const { orders, project, hadSecrets, again, limits, secrets, openLog, print, takeImage, signal } = options;
  const { onStates = () => {}, began = performance.now(), moreHosts = '' } = options;
  if (!using.sandboxes.hasOwnNetwork)
    throw new CannotRunError(
      'services_need_own_network',
      'This runner gives builds the network of its machine, but services need a network of their own.',
    );
  await using held = new AsyncDisposableStack();
  const hosts = join(using.scratch, `hosts-${randomName()}`);
  held.defer(() => rm(hosts, { force: true }));
  await writeFile(hosts, usualHosts(orders.map(({ name }) => name)) + moreHosts, { mode: 0o644 });
  const brought = await Promise.all(
    orders.map(async (order): Promise<[ServiceImage | undefined, Taken]> => {
      const { image: wanted, name } = order;
      const taken = wanted && held.use(await ofService(name, takeImage(wanted, { name, isAsItIs: isAsItIs(order) })));
      const image = taken && { ...taken, inside: await inImage(taken) };
      return [image, held.use(await using.dependencyCache.take(order.software, signal))];
    }),
  );
  const resources = held.move();
  const elapsed = (): number => Math.round(performance.now() - began);
  const services = orders.map((order): Service => {
    const log = serviceLog(openLog(order.name), secrets);
    return { order, log, state: { name: order.name, state: 'starting' } };
  });
  const change = (service: Service, changed: Partial<ServiceState>): void => {
    Object.assign(service.state, changed);
    onStates(services.map(({ state }) => ({ ...state })));
  };
  const dying = new AbortController();
  const ending = new AbortController();
  const everything = AbortSignal.any([signal, ending.signal]);
  const begunWith: SuiteServices['data'] = {};
  let failure: CannotRunError | undefined;
  let areReady = false;
  let isOver = false;

  const mounts: NonNullable<Job['mounts']> = [{ at: '/etc/hosts', file: hosts }];
  const partsOf = ({ order, log }: Service, at: number): ServiceParts => {
    const [image, software] = brought[at] ?? [];
    const variables = {
      ...using.operatorVariables(),
      ...image?.configuration.environment,
      ...order.environment,
    };
    return {
      order,
      image,
      environment: findable(variables, order.prefixes, software?.directoriesAt ?? (() => [])),
      mounts: [...mounts, ...(software?.mounts ?? [])],
      limits,
      log,
      secrets,
      signal: everything,
    };
  };
  /** Once ready, a service must live until the build is over. */
  const watch = async (service: Service, running: RunningService): Promise<void> => {
    const { order, log } = service;
    const ended = await running.ended;
    const isAwaited = isOver || everything.aborted;
    change(service, { state: isAwaited ? 'stopped' : 'failed', to: elapsed() });
    if (isAwaited) return;
    failure ??= new CannotRunError(
      'service_died',
      `The service ${order.name} ${endInWords(ended)} while the build ran.${withLastLines(log)}`,
    );
    (areReady ? dying : ending).abort(failure);
  };
  const startOne = async (sidecars: Sidecars, service: Service, at: number, job: BuildJob): Promise<void> => {
    change(service, { from: elapsed() });
    try {
      const running = await startPrepared(sidecars, partsOf(service, at), {
        job,
        store: using.sandboxes.hasLayers ? using.serviceData : undefined,
        project,
        again,
        held: resources,
        onFilling: () => change(service, { state: 'preparing' }),
        onStatus: (status) => void (service.state.status = status),
        onData(data) {
          begunWith[service.order.name] = data;
          change(service, { data: { ...data, hadSecrets } });
        },
        print,
        log: using.log,
      });
      change(service, { state: 'ready', ready: elapsed() });
      await print(`The service ${service.order.name} is ready.\n`);
      watch(service, running).catch((error: unknown) => (areReady ? dying : ending).abort(error));
    } catch (error) {
      // The service may have been stopped with its build, or because another service failed.
      change(service, { state: isOver || everything.aborted ? 'stopped' : 'failed', to: elapsed() });
      throw error;
    }
  };
  const imageDigests = brought.flatMap(([image], at) => (image ? [[orders[at]?.name ?? '', image.digest]] : []));
  return {
    imageDigests: Object.fromEntries(imageDigests) as Record<string, string>,
    mounts,
    data: begunWith,
    signal: dying.signal,
    async start(sidecars, job) {
      const starting = services.map((service, at) => startOne(sidecars, service, at, job));
      try {
        await Promise.all(starting);
        everything.throwIfAborted(); // a service has ended since it was ready
        areReady = true;
      } catch (error) {
        ending.abort(); // the other services are no longer needed
        await Promise.allSettled(starting);
        throw error;
      }
    },
    over: () => void (isOver = true),
    failure: () => failure,
    hide: (more) =>
      hideIn(
        services.map(({ log }) => log),
        more,
      ),
    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  };
}

/** Adds the service's name to an error, because a build may have several images. */
async function ofService<T>(name: string, image: Promise<T>): Promise<T> {
  try {
    return await image;
  } catch (error) {
    if (!(error instanceof CannotRunError)) throw error;
    throw new CannotRunError(error.reason, `Service ${name}: ${error.message}`);
  }
}

/** All names resolve to the network's own loopback. */
