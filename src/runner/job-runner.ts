import type { DiskReserve } from '../shared/lib/disk-reserve.ts';
import type { KeptFiles, Link, LogPart, Outcome, ServiceState, StepState } from '../shared/protocol/index.ts';
import type { Checkouts } from './checkouts.ts';
import type { Mirrors } from './git/mirrors.ts';
import type { Sandboxes } from './sandbox/types.ts';
import type { CacheStore } from './cache-store.ts';
import type { DependencyCache } from './dependency-cache.ts';
import type { Images } from './images/images.ts';
import type { KeptBuilds } from './kept-builds.ts';
import type { Outbox } from './outbox.ts';
import type { ServiceDataStore } from './services/service-data.ts';
import type { LogSink } from './services/service-log.ts';
import type { StepTimes } from './step-times.ts';

/** The services for every kind of job. */
export interface RunnerServices {
  mirrors: Mirrors;
  checkouts: Checkouts;
  sandboxes: Sandboxes;
  /** Ends all runs and removes their files. */
  close(): Promise<void>;
  dependencyCache: DependencyCache;
  /** The trees of suites' caches. */
  caches: CacheStore;
  /** The files that builds left for other suites, unpacked from blobs. */
  trees: CacheStore;
  /** What services held after they were filled; undefined if that is not kept. */
  serviceData?: ServiceDataStore | undefined;
  /** For data that orders and outcomes do not contain. */
  link: Pick<Link, 'read' | 'store' | 'keep' | 'access' | 'tests'>;
  images: Images;
  outbox: Outbox;
  /** The files of builds; undefined where none can be kept. */
  kept?: KeptBuilds | undefined;
  /** Whether the runner ends after its job, so that nobody can open a shell here. */
  isSoonGone?: boolean;
  /** Whether the operator of this runner does not let builds make images, whatever the server says. */
  forbidsImageBuilds?: boolean;
  /** A folder for temporary files of a job. */
  scratch: string;
  /**
   * The operator's variables for all builds, read anew each time. Every other variable overrides them, and they
   * override the defaults.
   */
  operatorVariables: () => Record<string, string>;
  /** The free space for large data on the runner's disk. */
  disk: DiskReserve;
  /** Messages for the operator. */
  log: (message: string) => void;
}

/** One job under way. */
export interface Task {
  /** Its name, unique among the runner's current jobs. */
  id: string;
  writeLog: (output: Buffer | string) => void | Promise<void>;
  signal: AbortSignal;
  steps: StepTimes;
  /** How many lines the log has before the job writes to it. */
  logLines?: number | undefined;
  /** The states of a suite's steps, whenever they change. */
  onSteps?: (states: readonly StepState[]) => void;
  /** The log of a service of a suite. */
  openLog?: (service: string) => LogSink;
  /** How far the services of a suite are. */
  onServices?: (states: readonly ServiceState[]) => void;
  /** The files of the job are kept. */
  onKept?: (files: KeptFiles) => void;
  /** Some of the job's files are in the outbox (outbox.ts). */
  onWaiting?: () => void;
  /** Called where the output of commands begins in the log, and where it ends. */
  onOutput?: (at: keyof LogPart) => void;
}

export type JobRunner<W> = (services: RunnerServices, work: W, task: Task) => Promise<Outcome>;
