import type { Ending, EndingWatcher, Observers, WriteContext } from './write-context.ts';

/** Watchers and a tracer are added later. */
export function createObservers(): Observers {
  return { endings: new Set() };
}

/** Watches until the returned function is called. */
export function watchEndings({ endings }: Observers, watcher: EndingWatcher): () => void {
  endings.add(watcher);
  return () => endings.delete(watcher);
}

export function noteEnding(context: WriteContext, ending: Ending): void {
  for (const watcher of context.observers.endings) watcher(context, ending);
}
