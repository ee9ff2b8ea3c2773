import type { Ending, EndingWatcher, Observers, WriteContext } from './write-context.ts';

export function createObservers(): Observers {
  return { endings: new Set() };
}

export function watchEndings({ endings }: Observers, watcher: EndingWatcher): () => void {
  endings.add(watcher);
  return () => endings.delete(watcher);
}

export function noteEnding(context: WriteContext, ending: Ending): void {
  for (const watcher of context.observers.endings) watcher(context, ending);
}
