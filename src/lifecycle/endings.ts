import type { Database } from '../db/open.ts';
import type { BuildRow } from '../db/schema.ts';
import type { WriteContext } from './write-context.ts';

/** A build or a build request came to a state that it does not leave by itself. */
export type Ending =
  | ({ type: 'build'; state: string } & Pick<BuildRow, 'id' | 'created_at' | 'started_at' | 'finished_at'>)
  | { type: 'build_request'; id: bigint; state: string };

/**
 * Hears of an ending within the transaction that brings it about, which may still be rolled back or run again: whatever
 * leaves the process has to wait for its commit (`afterCommit`).
 */
export type EndingWatcher = (context: WriteContext, ending: Ending) => void;

/** Who watches what is written through a database. Only its own server's writes: each ending is told of once, by one. */
const watchers = new WeakMap<Database, Set<EndingWatcher>>();

/** Watches until what is returned is called. */
export function watchEndings(db: Database, watcher: EndingWatcher): () => void {
  const all = watchers.get(db) ?? new Set();
  watchers.set(db, all.add(watcher));
  return () => all.delete(watcher);
}

export function noteEnding(context: WriteContext, ending: Ending): void {
  for (const watcher of watchers.get(context.db) ?? []) watcher(context, ending);
}
