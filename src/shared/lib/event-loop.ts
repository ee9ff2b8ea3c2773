import { setImmediate as nextTurn } from 'node:timers/promises';

/** How long one piece of work may keep the server from answering others. */
const longestMs = 10;

/**
 * Lets other work run now and then: code that only waits for SQLite stays in one turn of the event loop, however many
 * queries it makes. Undefined while it is too early for that.
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
