import type { Database, Transaction } from '../db/open.ts';
import type { BuildRow } from '../db/schema.ts';
import type { IdSource } from '../../shared/lib/ids.ts';
import type { Tracer } from './spans.ts';

export interface WriteContext {
  db: Database;
  trx: Transaction;
  ids: IdSource;
  observers: Observers;
}

/** The server that causes an ending reports it once. */
export interface Observers {
  readonly endings: Set<EndingWatcher>;
  tracer?: Tracer | undefined;
}

/** A final state of a build or a build request. */
export type Ending =
  | ({ type: 'build'; state: string } & Pick<BuildRow, 'id' | 'created_at' | 'started_at' | 'finished_at'>)
  | { type: 'build_request'; id: bigint; state: string };

/**
 * Called within the transaction, which may be rolled back or rerun. Nothing may leave the process before `afterCommit`.
 */
export type EndingWatcher = (context: WriteContext, ending: Ending) => void;

export const subjectTopic = (id: bigint): string => `subject:${id}`;
export const projectTopic = (id: bigint): string => `project:${id}`;

export interface LifecycleEvent {
  projectId: bigint;
  subjectId: bigint;
  type: 'build' | 'commit' | 'build_request' | 'deploy' | 'dependency';
  state: string;
  /** The state before, if the event comes from a roll-up. */
  from?: string;
}

export interface Group {
  projectId: bigint;
  name: string;
}
