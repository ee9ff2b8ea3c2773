import { messageOf } from '../../lib/error-code.ts';
import { randomName } from '../../lib/random-name.ts';
import type { CacheStore } from '../cache-store.ts';
import { CannotRunError } from '../cannot-run.ts';
import type { Beside, Job, JobLayers } from '../sandbox/types.ts';
import { runService, withLastLines, type RunningService, type ServiceParts } from './run-service.ts';
import { digestOfData, findData, keepData } from './service-data.ts';

/** The parts of a build's job that what fills a service has as well. */
export type BuildJob = Pick<Job, 'environment' | 'workspace' | 'home' | 'mounts' | 'image' | 'user' | 'limits'>;

export interface PreparedOptions {
  /** The build's, for what fills the service. */
  job: BuildJob;
  /** Where data are kept, if this runner can keep any. */
  store: CacheStore | undefined;
  project: string;
  /** A fork's build begins with what others made, and leaves nothing. */
  isFork: boolean;
  /** Holds the data that the service began with. */
  held: AsyncDisposableStack;
  onFilling: () => void;
  onStatus: (status: number) => void;
  log: (message: string) => void;
}

/**
 * Starts a service with what an earlier one held, or fills it by a command in the build's files. What it holds then is kept for
 * later ones.
 */
export async function startPrepared(
  beside: Beside,
  parts: ServiceParts,
  options: PreparedOptions,
): Promise<RunningService> {
  const { order, log, signal } = parts;
  const { job, project, isFork, held } = options;
  const store = order.data.length > 0 ? options.store : undefined;
  const digest = store && digestOfData(beside, order, { ...job, signal }, parts.image?.digest);
  const found = async (): Promise<JobLayers | undefined> => {
    const key = await digest;
    const data = key !== undefined && store && (await findData(store, project, key, signal));
    return data ? held.use(data).layers : undefined;
  };
  /** Its sandbox is opened while its data are looked for. */
  const begin = async (finding: Promise<JobLayers | undefined>, onLeft?: Job['onLeft']) => {
    const running = runService(beside, parts, { layers: finding.then((layers = {}) => layers), onLeft });
    running.ended.then(
      ({ exitStatus }) => void (exitStatus !== null && options.onStatus(exitStatus)),
      () => {}, // `ready` tells
    );
    const [known] = await Promise.all([finding, running.ready]);
    return { running, known };
  };
  const fill = async (): Promise<void> => {
    if (order.prepare === '') return;
    options.onFilling();
    await fillService(beside, parts, job);
  };
  let isKeeping = false;
  let isKept = false;
  // Only what it has closed by itself, when it was asked to: nobody else may have ended it meanwhile.
  const keep: Job['onLeft'] = async (left, { reason, wasForced = false }) => {
    if (!isKeeping || reason !== 'cancelled' || wasForced || signal.aborted) return;
    const key = await digest;
    if (key === undefined || !store) return;
    await keepData(store, project, key, { left, data: order.data });
    isKept = true;
  };
  const { running, known } = await begin(found(), (left, ended) =>
    keep(left, ended).catch((error: unknown) => options.log(`the data of a service are not kept: ${messageOf(error)}`)),
  );
  if (known) return running;
  await fill();
  if ((await digest) === undefined || isFork) return running;
  isKeeping = true;
  await running.stop();
  if (!isKept) await log.print('\nWhat this service holds is not kept for the next one: it could not be.\n');
  const again = await begin(found());
  if (!again.known) await fill();
  return again.running;
}

async function fillService(beside: Beside, { order, log, signal }: ServiceParts, job: BuildJob): Promise<void> {
  const { exitStatus, reason } = await beside.start({
    id: randomName(),
    ...job,
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
    `What fills the service ${order.name} ${how}.${withLastLines(log)}`,
  );
}
