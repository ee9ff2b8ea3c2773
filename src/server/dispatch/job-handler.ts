import type { Runner } from '../auth/runners.ts';
import type { Vault } from '../../shared/lib/vault.ts';
import type { WriteContext } from '../lifecycle/write-context.ts';
import type { LogPart, Outcome, ServiceState, StepState, Work } from '../../shared/protocol/index.ts';
import type { ClaimedJob } from '../queue/queue.ts';
import type { ReadFile } from '../lifecycle/file-suites.ts';

/** The limits that orders carry. */
export interface BuildLimits {
  memoryBytes: number;
  processes: number;
  timeoutSeconds: number;
}

/** The limits for the content of an archive. */
export interface UnpackLimits {
  bytes: number;
  entries: number;
}

/** The most files that are stored for one build, and their size. */
export interface ArtifactLimits {
  mostFiles: number;
  mostBytes: number;
}

export interface JobContext extends WriteContext {
  vault: Vault;
  limits: BuildLimits;
  /** Whether builds may make images. */
  imageBuilds: boolean;
  artifacts: ArtifactLimits;
  unpacked: UnpackLimits;
  /** The most bytes of all caches of a project together; 0 for none. */
  cacheBytes: number;
  /** For how many hours the files of a failed build are kept; 0 keeps none. */
  shellHours: number;
  /** For how many hours files that other suites begin with are kept after their request is over. */
  filesHours: number;
}

/** The job has to wait for the compiles of these dependencies. */
export interface Later {
  awaits: readonly bigint[];
}

/** The job needs files that another runner has: only that runner may take it before this moment. */
export interface Elsewhere {
  location: string;
  until: number;
}

/** The runner that asks for an order. */
export type Asker = Pick<Runner, 'location'>;

interface Settled {
  file: ReadFile | undefined;
  sha: string | undefined;
  output: LogPart | undefined;
  stepStates: StepState[] | undefined;
  services: ServiceState[] | undefined;
}

/** The server's half of one kind of job. The runner's half has the same name. */
export interface JobHandler {
  /** Records that the job has begun and returns the order for the runner; undefined when nothing is left to do. */
  order(context: JobContext, job: ClaimedJob, asker: Asker): Promise<Work | Later | Elsewhere | undefined>;
  /** How the job can end, other than being lost. */
  outcomes: readonly Outcome['kind'][];
  /**
   * Stores the outcome. `file` is what a fetched commit is built by, once that is read, and `sha` the commit whose file
   * was refused (repository-config.ts); `output` is the part of the log that the commands of a suite wrote,
   * `stepStates` says how they ended, and `services` what became of what ran beside them.
   */
  settle(context: JobContext, job: ClaimedJob, outcome: Outcome, about: Settled): Promise<void>;
  /** The runner is gone, or could not do its part. `retry` says whether the job stays in the queue. */
  lose(context: JobContext, job: ClaimedJob): Promise<{ retry: boolean }>;
  /** A sentence for the log about work that was interrupted. */
  whenCut?: string;
  /** Whether the log stays open after the work is over. */
  keepsLogOpen?: boolean;
}
