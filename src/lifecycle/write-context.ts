import type { Database, Transaction } from '../db/open.ts';
import type { BuildRow } from '../db/schema.ts';
import type { IdSource } from '../lib/ids.ts';
import type { Tracer } from './spans.ts';

/** One transaction in which states change, with the services that a change needs. */
export interface WriteContext {
  db: Database;
  trx: Transaction;
  ids: IdSource;
  observers: Observers;
}

/** Who hears of what this server writes. Each ending is told of once, by the server that brings it about. */
export interface Observers {
  readonly endings: Set<EndingWatcher>;
  /** Where traces go; without it there are none. */
  tracer?: Tracer | undefined;
}

/** A build or a build request came to a state that it does not leave by itself. */
export type Ending =
  | ({ type: 'build'; state: string } & Pick<BuildRow, 'id' | 'created_at' | 'started_at' | 'finished_at'>)
  | { type: 'build_request'; id: bigint; state: string };

/**
 * Hears of an ending within the transaction that brings it about, which may still be rolled back or run again: whatever
 * leaves the process has to wait for its commit (`afterCommit`).
 */
export type EndingWatcher = (context: WriteContext, ending: Ending) => void;

/** Announced when a record's state changes. */
export const subjectTopic = (id: bigint): string => `subject:${id}`;
/** Announced when anything in a project changes. */
export const projectTopic = (id: bigint): string => `project:${id}`;

export interface LifecycleEvent {
  projectId: bigint;
  subjectId: bigint;
  type: 'build' | 'commit' | 'build_request' | 'deploy' | 'dependency';
  state: string;
  /** The state before, where the roll-up found another one. */
  from?: string;
}

/** Builds of a project that run one at a time. */
export interface Group {
  projectId: bigint;
  name: string;
}
