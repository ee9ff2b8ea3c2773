import { messageOf } from '../../shared/lib/error-code.ts';
import { randomName } from '../../shared/lib/random-name.ts';
import { CannotRunError } from '../cannot-run.ts';
import type { Sidecars, Job, JobLayers } from '../sandbox/types.ts';
import { graceMs, runService, withLastLines, type RunningService, type ServiceParts } from './run-service.ts';
import {
  digestOfData,
  keepData,
  takeData,
  type DataName,
  type Filling,
  type KeptServiceData,
  type ServiceDataStore,
} from './service-data.ts';

/** The parts of a build's job that the `prepare` command gets too. */
export type BuildJob = Pick<Job, 'environment' | 'workspace' | 'home' | 'mounts' | 'image' | 'user' | 'limits'> & {
  /** If undefined, data are not reused or stored. */
  filling?: Filling;
};

/** `isMade` is true if this build made the data. */
export type BegunWith = DataName & { bytes: number; isMade: boolean };

export interface PreparedOptions {
  job: BuildJob;
  /** Undefined if this runner can store no data. */
  store: ServiceDataStore | undefined;
  project: string;
  /** In a shell: the data that the build's services had. The shell uses only these, and stores none. */
  again?: Readonly<Record<string, DataName>> | undefined;
  /** Holds the data that the service began with. */
  held: AsyncDisposableStack;
  onFilling: () => void;
  onStatus: (status: number) => void;
  onData: (data: BegunWith) => void;
  print: (text: string) => Promise<void>;
  log: (message: string) => void;
}

const mostDeaf = 1000;

/** Starts a service with stored data, or else runs its `prepare` command and stores its data for later services. */
export async function startPrepared(
  sidecars: Sidecars,
  parts: ServiceParts,
  options: PreparedOptions,
): Promise<RunningService> {
  const { order, log, signal } = parts;
  const { job, project, held, again, onData } = options;
  const store = order.data.length > 0 ? options.store : undefined;
  const known = store && lookFor(sidecars, store, parts, options);
  const begin = async (finding: Promise<JobLayers | undefined>, onLeft?: Job['onLeft']): Promise<RunningService> => {
    const running = runService(sidecars, parts, { layers: finding.then((layers = {}) => layers), onLeft });
    running.ended.then(
      ({ exitStatus }) => void (exitStatus !== null && options.onStatus(exitStatus)),
      () => {}, // `ready` reports it
    );
    await Promise.all([finding, running.ready]);
    return running;
  };
  const fill = async (): Promise<void> => {
    if (order.prepare === '') return;
    options.onFilling();
    await fillService(sidecars, parts, job);
  };
  let isKeeping = false;
  let kept: KeptServiceData | undefined;
  // Data are stored only if the service ended cleanly, and only on this request.
  const saveData: Job['onLeft'] = async (left, { reason, wasForced = false }) => {
    if (!isKeeping || reason !== 'cancelled' || wasForced || signal.aborted) return;
    const { digest } = (await known) ?? {};
    if (digest !== undefined && store) kept = await keepData(store, project, digest, { left, data: order.data });
  };
  const running = await begin(known?.then(({ layers }) => layers) ?? Promise.resolve(undefined), (left, ended) =>
    saveData(left, ended).catch((error: unknown) =>
      options.log(`the data of a service are not stored: ${messageOf(error)}`),
    ),
  );
  const { layers, digest } = (await known) ?? {};
  if (layers) return running;
  await fill();
  if (digest === undefined || order.saves !== true || again || !store) return running;
  const kind = JSON.stringify([project, order.name, order.command, parts.image?.digest]);
  isKeeping = true;
  if (store.deaf.has(kind) || !(await running.stop())) {
    await log.print(`\nThis build prepares its data. They are not stored: ${whyDeaf}\n`);
    if (store.deaf.size >= mostDeaf) store.deaf.clear();
    store.deaf.add(kind);
    return running;
  }
  if (!kept) {
    await log.print('\nThis build prepares its data. They are not stored: the runner could not store them.\n');
    const next = await begin(Promise.resolve(undefined));
    await fill();
    return next;
  }
  const { missing, ...made } = kept;
  if (missing.length > 0)
    await options.print(`The service ${order.name} has no directory ${missing.join(', ')}: nothing of it is stored.\n`);
  await log.print('\nThis build prepares its data and stores them for later builds.\n');
  onData({ ...made, isMade: true });
  const found = await takeData(store, project, [made], signal);
  return begin(Promise.resolve(found && held.use(found).layers));
}

const whyDeaf =
  `it does not end within ${graceMs / 1000} seconds of SIGTERM. It keeps running, ` +
  'and this runner does not stop it again.';

interface Known {
  /** Undefined if data are not stored or searched for, or if the digest cannot be computed. */
  digest?: string | undefined;
  layers?: JobLayers;
}

/** Finds stored data that were made from the same inputs, and mentions them in the service's log. */
async function lookFor(
  sidecars: Sidecars,
  store: ServiceDataStore,
  { order, image, log, signal }: ServiceParts,
  { job, project, again, held, onData, print }: PreparedOptions,
): Promise<Known> {
  if (again) {
    const own = again[order.name];
    const found = own && (await takeData(store, project, [own], signal));
    return found ? { layers: held.use(found).layers } : {};
  }
  const { filling } = job;
  if (!filling || (order.saves !== true && !order.kept)) return {};
  const asked = { order, build: job, filling, image: image?.digest ?? '', signal };
  const { digest, why, unmatched } = await digestOfData(sidecars, store.key, asked);
  if (unmatched.length > 0)
    await print(`prepare_inputs of the service ${order.name} match no file: ${unmatched.join(', ')}\n`);
  if (why !== undefined) await log.print(`This build prepares its data. They are not stored: ${why}.\n`);
  const same = (order.kept ?? []).filter((one) => one.digest === digest);
  const found = await takeData(store, project, same, signal);
  if (!found) return { digest };
  const { name, build, madeAt } = found.data;
  await log.print(`Its data are stored since ${new Date(madeAt).toISOString()}, from build ${build}.\n`);
  onData({ name, digest: found.data.digest, bytes: 0, isMade: false });
  return { digest, layers: held.use(found).layers };
}

async function fillService(sidecars: Sidecars, { order, log, signal }: ServiceParts, job: BuildJob): Promise<void> {
  const { filling: _, ...run } = job;
  const { exitStatus, reason } = await sidecars.start({
    id: randomName(),
    ...run,
    steps: [{ name: 'prepare', command: order.prepare }],
    output: (chunk) => log.push(chunk),
    signal,
  }).ended;
  await log.flush();
  signal.throwIfAborted();
  if (exitStatus === 0) return;
  const how = exitStatus === null ? `was ended (${reason?.replaceAll('_', ' ')})` : `failed with status ${exitStatus}`;
  throw new CannotRunError(
    'service_prepare_failed',
    `The command prepare of the service ${order.name} ${how}.${withLastLines(log)}`,
  );
}
