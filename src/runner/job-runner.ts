import type { DiskReserve } from '../shared/lib/disk-reserve.ts';
import type {
  KeptFiles,
  Link,
  LogPart,
  Outcome,
  RunnerInput,
  ServiceState,
  StepState,
  UsageReport,
} from '../shared/protocol/index.ts';
import type { Checkouts } from './checkouts.ts';
import type { Mirrors } from './git/mirrors.ts';
import type { Sandboxes } from './sandbox/types.ts';
import type { CacheStore } from './cache-store.ts';
import type { DependencyCache } from './dependency-cache.ts';
import type { Images } from './images/images.ts';
import type { MachineInputs } from './machine-inputs.ts';
import type { KeptBuilds } from './kept-builds.ts';
import type { Outbox } from './outbox.ts';
import type { ServiceDataStore } from './services/service-data.ts';
import type { LogSink } from './services/service-log.ts';
import type { SpanTimes } from './span-times.ts';

export interface RunnerDeps {
  mirrors: Mirrors;
  checkouts: Checkouts;
  sandboxes: Sandboxes;
  close(): Promise<void>;
  dependencyCache: DependencyCache;
  /** The trees of suites' caches. */
  caches: CacheStore;
  /** Files for other suites, unpacked from blobs. */
  trees: CacheStore;
  /** Undefined if this runner stores no data of services. */
  serviceData?: ServiceDataStore | undefined;
  link: Pick<Link, 'read' | 'store' | 'storeFiles' | 'access' | 'tests' | 'summary' | 'stepPoint'>;
  images: Images;
  outbox: Outbox;
  /** Undefined if this runner cannot retain files of builds. */
  kept?: KeptBuilds | undefined;
  /** Whether the runner is short-lived, so that no user can open a shell here. */
  isSoonGone?: boolean;
  /** The operator forbids image builds on this runner, whatever the server allows. */
  forbidsImageBuilds?: boolean;
  scratch: string;
  /** The server of a remote runner. */
  server?: { url: string; ca?: string | undefined } | undefined;
  /**
   * The operator's variables for all builds, read again at each call. They override the defaults. All other variables
   * override them.
   */
  operatorVariables: () => Record<string, string>;
  machine: MachineInputs;
  disk: DiskReserve;
  /** Messages for the operator. */
  log: (message: string) => void;
}

export interface Task {
  /** Unique among the runner's current jobs. */
  id: string;
  writeLog: (output: Buffer | string) => void | Promise<void>;
  signal: AbortSignal;
  spans: SpanTimes;
  /** The number of lines in the log before the job writes to it. */
  logLines?: number | undefined;
  /** Called whenever a state changes. */
  onSteps?: (states: readonly StepState[]) => void;
  openLog?: (service: string) => LogSink;
  onServices?: (states: readonly ServiceState[]) => void;
  /** What the build stands on. */
  onInputs?: (inputs: Promise<RunnerInput[]>) => void;
  onKept?: (files: KeptFiles) => void;
  /** Some of the job's files are in the outbox (outbox.ts). */
  onWaiting?: () => void;
  onUsage?: (usage: UsageReport) => void;
  /** Called when the commands' output begins in the log, and when it ends. */
  onOutput?: (at: keyof LogPart) => void;
}

export type JobRunner<W> = (deps: RunnerDeps, work: W, task: Task) => Promise<Outcome>;
