import type { Runner } from '../auth/runners.ts';
import type { Identity } from '../identity/tokens.ts';
import type { Vault } from '../../shared/lib/vault.ts';
import type { WriteContext } from '../lifecycle/write-context.ts';
import type {
  ApiOrder,
  LogPart,
  Outcome,
  RunnerInput,
  ServiceState,
  StepState,
  UsageReport,
  Work,
} from '../../shared/protocol/index.ts';
import type { ClaimedJob } from '../queue/leases.ts';
import type { ReadFile } from '../lifecycle/file-suites.ts';

export interface BuildLimits {
  memoryBytes: number;
  processes: number;
  timeoutSeconds: number;
}

export interface UnpackLimits {
  bytes: number;
  entries: number;
}

export interface ArtifactLimits {
  mostFiles: number;
  mostBytes: number;
}

export interface JobContext extends WriteContext {
  vault: Vault;
  limits: BuildLimits;
  imageBuilds: boolean;
  identity: Identity;
  /** How builds reach the API. */
  api: () => ApiOrder;
  artifacts: ArtifactLimits;
  unpacked: UnpackLimits;
  /** Limit of all caches of a project; 0 for none. */
  cacheBytes: number;
  /** Whether a build that was reused is run all the same. */
  isSampled: () => boolean;
  /** How many hours a failed build's files are retained; 0 for none. */
  shellHours: number;
  /** How many hours files for other suites are retained, counted from the end of the request. */
  filesHours: number;
}

/** The job must wait for the compiles of these dependencies. */
export interface Later {
  awaits: readonly bigint[];
}

/** Only the runner with the needed files, if there is a single one, may take the job before this moment. */
export interface Elsewhere {
  location: string | null;
  until: number;
}

export type Asker = Pick<Runner, 'id' | 'location'>;

interface Settled {
  file: ReadFile | undefined;
  sha: string | undefined;
  output: LogPart | undefined;
  stepStates: StepState[] | undefined;
  services: ServiceState[] | undefined;
  usage: UsageReport | undefined;
  inputs: RunnerInput[] | undefined;
  /** A line of the log matches an expression of the suite's `retry_on[]`. */
  isInLog: boolean;
}

/** The server's half of one kind of job. The runner's half has the same name. */
export interface JobHandler {
  /** Records that the job has begun. Undefined if nothing is left to do. */
  order(context: JobContext, job: ClaimedJob, asker: Asker): Promise<Work | Later | Elsewhere | undefined>;
  /** Possible outcomes, except the ones that every kind has (`alwaysPossible` in outcomes.ts). */
  outcomes: readonly Outcome['kind'][];
  /**
   * `file` builds a fetched commit, `sha` is the commit of a refused file, `output` the log part of a suite's commands.
   * `isStale`: the outcome was read under other settings of the project, and the job is treated as lost.
   */
  settle(context: JobContext, job: ClaimedJob, outcome: Outcome, about: Settled): Promise<{ isStale: true } | void>;
  /** The runner is gone, or could not do its part. `retry`: the job stays in the queue. */
  lose(context: JobContext, job: ClaimedJob): Promise<{ retry: boolean }>;
  /** A sentence for the log of interrupted work. */
  whenCut?: string;
  keepsLogOpen?: boolean;
}
