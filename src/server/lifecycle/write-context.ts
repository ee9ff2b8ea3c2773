import type { Database, Transaction } from '../db/open.ts';
import type { BuildRow } from '../db/schema.ts';
import type { IdSource } from '../../shared/lib/ids.ts';
import type { Tracer } from './spans.ts';

/** One transaction in which states change, with the services that a change needs. */
export interface WriteContext {
  db: Database;
  trx: Transaction;
  ids: IdSource;
  observers: Observers;
}

/** What is notified of the writes of this server. Each ending is reported once, by the server that brings it about. */
export interface Observers {
  readonly endings: Set<EndingWatcher>;
  /** Where spans are sent; without it nothing is traced. */
  tracer?: Tracer | undefined;
}

/** A build or a build request came to a state that it does not leave by itself. */
export type Ending =
  | ({ type: 'build'; state: string } & Pick<BuildRow, 'id' | 'created_at' | 'started_at' | 'finished_at'>)
  | { type: 'build_request'; id: bigint; state: string };

/**
 * Called within the transaction that brings about an ending, which may still be rolled back or run again. So whatever
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
  /** The state before, if the event comes from a roll-up. */
  from?: string;
}

/** Builds of a project that run one at a time. */
export interface Group {
  projectId: bigint;
  name: string;
}
