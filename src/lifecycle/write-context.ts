import type { Database, Transaction } from '../db/open.ts';
import type { IdSource } from '../lib/ids.ts';

/** One transaction in which states change, with the services that a change needs. */
export interface WriteContext {
  db: Database;
  trx: Transaction;
  ids: IdSource;
}

/** Announced when a record's state changes. */
export const subjectTopic = (id: bigint): string => `subject:${id}`;
/** Announced when anything in a project changes. */
export const projectTopic = (id: bigint): string => `project:${id}`;

export interface LifecycleEvent {
  projectId: bigint;
  subjectId: bigint;
  type: 'build' | 'commit' | 'build_request' | 'deploy' | 'dependency';
  state: string;
}
