import type { Ending, EndingWatcher, Observers, WriteContext } from './write-context.ts';

/** Without watchers and tracer, which come later. */
export function createObservers(): Observers {
  return { endings: new Set() };
}

/** Watches until what is returned is called. */
export function watchEndings({ endings }: Observers, watcher: EndingWatcher): () => void {
  endings.add(watcher);
  return () => endings.delete(watcher);
}

export function noteEnding(context: WriteContext, ending: Ending): void {
  for (const watcher of context.observers.endings) watcher(context, ending);
}
