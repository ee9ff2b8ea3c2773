import type { Vault } from '../lib/vault.ts';
import type { WriteContext } from '../lifecycle/write-context.ts';
import type { Outcome, Work } from '../protocol.ts';
import type { ClaimedJob } from '../queue/queue.ts';

/** The limits that orders carry. */
export interface BuildLimits {
  memoryBytes: number;
  processes: number;
  timeoutSeconds: number;
}

/** How much an archive may hold. */
export interface UnpackLimits {
  bytes: number;
  entries: number;
}

export interface JobContext extends WriteContext {
  vault: Vault;
  limits: BuildLimits;
  unpacked: UnpackLimits;
}

/** It has to wait for other work: for the compiles of these dependencies. */
export interface Later {
  awaits: readonly bigint[];
}

/** The server's half of one kind of work; the runner's half has the same name. */
export interface JobHandler {
  /** What is asked of the runner, and that it has begun; undefined when there is nothing left to do. */
  order(context: JobContext, job: ClaimedJob): Promise<Work | Later | undefined>;
  /** How it can end, beside being lost. */
  outcomes: readonly Outcome['kind'][];
  /** What the outcome means. */
  settle(context: JobContext, job: ClaimedJob, outcome: Outcome): Promise<void>;
  /** The runner is gone, or could not do its part: `retry` says whether the job stays in the queue to go on. */
  lose(context: JobContext, job: ClaimedJob): Promise<{ retry: boolean }>;
  /** What is to be known about work that was broken off in the middle. */
  whenCut?: string;
  /** Whether the log stays open for more once the work is over. */
  keepsLogOpen?: boolean;
}
