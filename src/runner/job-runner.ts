import type { DiskReserve } from '../lib/disk-reserve.ts';
import type { Link, Outcome } from '../protocol.ts';
import type { Checkouts } from './checkouts.ts';
import type { Mirrors } from './git/mirrors.ts';
import type { Sandboxes } from './sandbox/types.ts';
import type { DependencyCache } from './dependency-cache.ts';

/** What every kind of job is run with. */
export interface RunnerServices {
  mirrors: Mirrors;
  checkouts: Checkouts;
  sandboxes: Sandboxes;
  /** Ends what runs, and leaves nothing behind. */
  close(): Promise<void>;
  dependencyCache: DependencyCache;
  /** For what no order or outcome carries. */
  link: Pick<Link, 'read' | 'store' | 'key'>;
  /** A folder for what is thrown away when the work is done. */
  scratch: string;
  /** Whether the runner's disk has room for what may be large. */
  disk: DiskReserve;
  /** For the operator. */
  log: (message: string) => void;
}

/** One piece of work under way. */
export interface Task {
  /** Names it among what this runner does at the moment. */
  id: string;
  say: (output: Buffer | string) => void | Promise<void>;
  signal: AbortSignal;
}

export type JobRunner<W> = (services: RunnerServices, work: W, task: Task) => Promise<Outcome>;
