import { setImmediate as nextTurn } from 'node:timers/promises';

/** For so long one piece of work may keep the server from answering others. */
const longestMs = 10;

/**
 * Lets others have their turn now and then: what waits for SQLite alone never leaves the turn of the event loop it began
 * in, however many queries it makes. Undefined where it may go on.
 */
export function createYield(): () => Promise<void> | undefined {
  let beganAt: number | undefined;
  return () => {
    const now = performance.now();
    if (beganAt === undefined) {
      beganAt = now;
      setImmediate(() => (beganAt = undefined));
    }
    return now - beganAt < longestMs ? undefined : nextTurn();
  };
}

/** The same as `map`; where there are very many items, others have their turn in between. */
export async function mapYielding<Item, Result>(
  items: readonly Item[],
  map: (item: Item) => Result,
): Promise<Result[]> {
  const yieldIfDue = createYield();
  const results: Result[] = [];
  for (const item of items) {
    results.push(map(item));
    await yieldIfDue();
  }
  return results;
}
